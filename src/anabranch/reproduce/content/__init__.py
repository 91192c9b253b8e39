"""Bizarro, Babu, DeWitt and Widom: the experiments with content-based routing."""
