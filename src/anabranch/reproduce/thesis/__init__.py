"""Babu's thesis, chapter 4: the experiments with pipelined filters."""
