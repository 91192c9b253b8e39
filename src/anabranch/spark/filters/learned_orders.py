"""What tasks learned about the orders of every stage: seeds of Python predicates, states of native ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.model.arrays import Floats
from anabranch.ordering.base import Seed
from anabranch.spark.filters.task_record import Part
from anabranch.spark.learned.saved import NativeState, native_from_json, native_to_json, seed_from_json, seed_to_json

SEED_PROFILES = 2000
LEARNED_ROWS = 256


class LearnedOrders:
    """Orders by stage, and the stages in the order in which rows last went through them (`parts`)."""

    def __init__(self) -> None:
        self.parts: tuple[Part, ...] = ()
        self.seeds: dict[Part, Seed] = {}
        self.natives: dict[Part, NativeState] = {}

    def merge(self, part: Part, seed: Seed, rows: int) -> None:
        """Merge what a worker learned; its order counts only if it learned from enough rows."""
        known = self.seeds.get(part)
        if known is not None:
            drops = np.concatenate([known.drops, seed.drops])[-SEED_PROFILES:]
            order = seed.order if rows >= LEARNED_ROWS else known.order
            seed = Seed(order, drops, _merge_costs(known.costs, seed.costs))
        self.seeds[part] = seed

    def to_json(self) -> dict[str, Any]:
        """As plain values, for a state folder or a saved file."""
        return {
            "parts": self.parts,
            "learned": [[part, seed_to_json(seed)] for part, seed in self.seeds.items()],
            "natives": [[part, native_to_json(state)] for part, state in self.natives.items()],
        }

    def restore(self, data: dict[str, Any]) -> None:
        """Take in what `to_json` gave."""
        self.parts = tuple(map(tuple, data["parts"]))
        self.seeds = {tuple(part): seed_from_json(s, len(part)) for part, s in data["learned"]}
        self.natives = {tuple(part): native_from_json(state, len(part)) for part, state in data["natives"]}


def _merge_costs(old: Floats, new: Floats) -> Floats:
    return np.where(np.isnan(new), old, np.where(np.isnan(old), new, (old + new) / 2))
