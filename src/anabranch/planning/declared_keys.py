"""Keys that users declare, where a join reads them.

>>> from anabranch.logical_plan import Scan, Window
>>> calls = Scan("calls", "stream", (("id", "id_1"), ("at", "at_1")))
>>> declared_keys((Window(calls, span=60), Window(calls, rows=5)), {"calls": ("id",)}.get)
((0, ('id_1',)), (1, ('id_1',)))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anabranch.logical_plan import Filter, Plan, Project, Scan, Window
from anabranch.planning.scalars import is_column

Columns = tuple[str, ...]


def declared_keys(inputs: Sequence[Plan], key_of: Callable[[str], Columns | None]) -> tuple[tuple[int, Columns], ...]:
    """By input, the columns that are a key there."""
    found = ((number, _key(plan, key_of)) for number, plan in enumerate(inputs))
    return tuple((number, key) for number, key in found if key)


def _key(plan: Plan, key_of: Callable[[str], Columns | None]) -> Columns:
    match plan:
        case Scan():
            names, key = dict(plan.renamed), key_of(plan.name) or ()
            return tuple(names[name] for name in key) if set(key) <= set(names) else ()
        case Window() | Filter():
            return _key(plan.input, key_of)
        case Project():
            kept = {scalar.columns[0]: name for name, scalar in plan.items if is_column((name, scalar))}
            key = _key(plan.input, key_of)
            return tuple(kept[name] for name in key) if set(key) <= set(kept) else ()
        case _:
            return ()
