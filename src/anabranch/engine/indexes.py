"""Indexes of tables that rows are looked up in: made on the driver, and changed there and in workers by differences.

A worker that has met an index keeps it. After a change of the relation it gets the rows that came and the numbers of
those that went; once these are many, it gets the index as it is by then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from anabranch.engine.inputs import RelationInput
from anabranch.engine.manifest import Manifest
from anabranch.engine.relations import Relations
from anabranch.model.names import quoted
from anabranch.operators.base import FOREVER, START
from anabranch.planning.index_look_up import IndexLookUp, TableChange
from anabranch.planning.stages import VALID_FROM, VALID_TO
from anabranch.spark.continuous.programs import LookUpStep
from anabranch.spark.continuous.views import Views
from anabranch.spark.mapping import map_in_arrow

FEWEST_SENT = 1_000
SENT_SHARE = 1 / 8
"""Changes are sent together with an index that was sent before, up to so many rows and to that share of it."""
MOST_INDEXED = 1_000_000
"""Rows of a table in which equal keys alone are looked up: a larger one is left to Spark's joins."""
MOST_ASSEMBLED = 16
_assembled: deque[tuple[IndexLookUp, TableChange, IndexLookUp]] = deque(maxlen=MOST_ASSEMBLED)


@dataclass(frozen=True)
class LookUpTask:
    """Combines rows with those of a table, in a worker."""

    table: Broadcast[IndexLookUp]
    change: Broadcast[TableChange] | None
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The combinations of some rows."""
        index = self.table.value if self.change is None else _changed(self.table.value, self.change.value)
        for batch in batches:
            found = index.found(pa.Table.from_batches([batch]))
            yield from found.select(self.schema.names).cast(self.schema).to_batches()


def _changed(index: IndexLookUp, change: TableChange) -> IndexLookUp:
    """An index after a change, made once in a worker."""
    for base, then, made in _assembled:
        if base is index and then is change:
            return made
    found = index.changed(change)
    assert found is not None, "the driver has made it, too"
    _assembled.append((index, change, found))
    return found


@dataclass(frozen=True)
class _Made:
    """An index as of some changes of relations, and how workers get it."""

    positions: list[int]
    index: IndexLookUp
    sent: Broadcast[IndexLookUp]
    change: TableChange | None = None
    sent_change: Broadcast[TableChange] | None = None


class Indexes:
    """The indexes of one engine, each as of the last change of what it is made of.

    Parameters
    ----------
    views
        What texts read from.
    relations
        Tell changes.
    inputs
        The relations by name.
    """

    def __init__(self, views: Views, relations: Relations, inputs: dict[str, RelationInput]) -> None:
        self._views = views
        self._relations = relations
        self._inputs = inputs
        self._made: dict[str, _Made] = {}
        self.builds = 0
        """How often an index was made of a whole table."""

    def look_up(self, step: LookUpStep, rows: DataFrame, manifest: Manifest) -> DataFrame:
        """Rows combined with those of the table of a step, whose views are bound."""
        if not step.probes and not self._has_few(step, manifest):
            return self._joined(step, rows)
        positions = [self._relations.position(name, manifest) for name in step.relations]
        known = self._made.get(step.view)
        if known is None or known.positions != positions:
            changed = None if known is None else self._after(known, step, manifest)
            known = self._made[step.view] = replace(changed or self._anew(step), positions=positions)
        task = LookUpTask(known.sent, known.sent_change, step.schema)
        return map_in_arrow(rows, task, from_arrow_schema(step.schema))

    def _has_few(self, step: LookUpStep, manifest: Manifest) -> bool:
        """Whether a table that equal keys are looked up in changes, and is small enough for an index."""
        states = [manifest.relations.get(name) for name in step.relations]
        held = [sum(file.rows for file in state.files) for state in states if state is not None]
        return len(held) == len(states) and sum(held) <= MOST_INDEXED

    def _joined(self, step: LookUpStep, rows: DataFrame) -> DataFrame:
        """The same by a join of Spark's own."""
        agree = [f"{quoted(left)} = {quoted(right)}" for left, right in step.pairs]
        agree += [f"{START} >= {VALID_FROM}", f"{START} < {VALID_TO}"]
        found = rows.join(self._views.select(step.table.text), F.expr(" AND ".join(agree)))
        return found.select(*map(quoted, step.schema.names))

    def describe(self, step: LookUpStep) -> str:
        """How rows are found, in words; nothing before there was a tick."""
        known = self._made.get(step.view)
        return "" if known is None else known.index.index.describe()

    def forget(self, views: Iterable[str]) -> None:
        """Some look-ups are gone, or their tables are made anew."""
        for view in views:
            known = self._made.pop(view, None)
            if known is not None:
                _unpersist(known.sent, known.sent_change)

    def _anew(self, step: LookUpStep) -> _Made:
        self.builds += 1
        self.forget([step.view])
        made = IndexLookUp.over(self._views.select(step.table.text).toArrow(), step.pairs, step.probes)
        return _Made([], made, self._views.session.sparkContext.broadcast(made))

    def _after(self, known: _Made, step: LookUpStep, manifest: Manifest) -> _Made | None:
        """An index with what has changed in its table since; None if it has to be made anew."""
        change = self._difference(known, step, manifest)
        index = None if change is None else known.index.changed(change)
        if change is None or index is None or len(index.table) > 2 * len(index.index) + FEWEST_SENT:
            return None
        context, sent = self._views.session.sparkContext, known.sent
        if known.sent_change is not None:
            _unpersist(known.sent_change)
        total = change if known.change is None else known.change.then(change)
        if len(total.added) + len(total.removed) > max(FEWEST_SENT, SENT_SHARE * len(index.table)):
            _unpersist(sent)
            return _Made([], index, context.broadcast(index))
        return _Made([], index, sent, total, context.broadcast(total))

    def _difference(self, known: _Made, step: LookUpStep, manifest: Manifest) -> TableChange | None:
        if len(step.relations) != 1:
            return None
        (name,) = step.relations
        versions, beside = self._views.of_source("versions", name), self._views.name(f"change_{name}")
        changes = self._relations.since(self._inputs[name], manifest, known.positions[0])
        if changes is None or {view.name for view in step.table.views} != {versions}:
            return None
        self._views.bind(beside, changes)
        try:
            rows = self._views.select(step.table.over(lambda view: replace(view, name=beside)).text).toArrow()
        finally:
            self._views.drop([beside])
        came = pc.equal(rows[VALID_TO], FOREVER)
        return known.index.difference(rows.filter(came), rows.filter(pc.invert(came)))


def _unpersist(*sent: Broadcast[IndexLookUp] | Broadcast[TableChange] | None) -> None:
    for each in sent:
        if each is not None:
            each.unpersist()
