"""Adaptive filters over Python predicates and look-ups: what a user calls, and what runs in the workers."""
