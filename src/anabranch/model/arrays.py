"""Names for the arrays and orders that flow between the parts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BoolMatrix = NDArray[np.bool_]
Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Rows = NDArray[np.int64]
Order = tuple[int, ...]
