"""From a logical plan to stages over cells: rewrites, then one reading for every backend."""
