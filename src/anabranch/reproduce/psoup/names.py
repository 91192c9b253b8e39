"""The names of what this reproduction compares."""

from __future__ import annotations

NOMAT, PARTIAL, COMPLETE, ARRAYS = "NoMat", "PSoup-P", "PSoup-C", "PSoup-C, arrays"

# A claim about a magnitude holds within half an order of it.
HALF_ORDER = 10**0.5
ONE_ORDER, TWO_ORDERS = 10 / HALF_ORDER, 100 / HALF_ORDER
UNCHANGED = 1.5
