"""Predicates that call models and services: rates, retries, kept answers, budgets, and the process that calls."""
