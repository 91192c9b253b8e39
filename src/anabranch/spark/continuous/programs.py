"""A query as Spark runs it in every tick: flows for what needs no state, and stages that are shuffled to cells.

A plan is read once, when the query is registered (`compiler.py`), into a *program*: flows over views, and steps that
make further views of them. In a tick the views are bound to the rows that are due and the texts of the flows are run.
Building the same as DataFrames, tick after tick, took a third of a short tick's time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import pyarrow as pa

from anabranch.expressions import Scalar
from anabranch.model.time_units import in_words
from anabranch.planning.placement import NOWHERE, Placement
from anabranch.planning.probes import Probe
from anabranch.planning.stages import Stage
from anabranch.spark.continuous.exchange import ExchangeInput
from anabranch.spark.continuous.flows import Instants, Sql, View
from anabranch.spark.continuous.grid import Grid

Inputs: TypeAlias = tuple[tuple[ExchangeInput, ...], ...]
InputKind: TypeAlias = Literal["came", "left", "table", "versions", "changes"]


@dataclass(frozen=True)
class Input:
    """A view that is bound in every tick.

    Parameters
    ----------
    view
        Its name.
    kind
        came
            Rows of a stream that are due, with `_time`.
        left
            Those that were due `ago` microseconds earlier.
        table
            Rows of a relation that does not change.
        versions
            Rows that a relation has had up to the end of the tick, with the times between which they are valid.
        changes
            Rows that enter a relation or leave it in the tick, with `_time` and `_weight`.
    name
        Of the stream, its summary, or the relation.
    """

    view: str
    kind: InputKind
    name: str
    ago: int = 0

    @property
    def source(self) -> View:
        """As flows read it."""
        return View(self.view, f"{self.kind} {self.name} {self.ago}")

    @property
    def title(self) -> str:
        """What it is, for people."""
        what = {"came": "stream", "left": "what leaves", "table": "relation"}.get(self.kind, self.kind)
        return f"{what} {self.name}" + (f" after {in_words(self.ago - 1)}" if self.ago else "")

    @property
    def is_stream(self) -> bool:
        """Whether it stands for rows of a stream, or of a summary of one."""
        return self.kind in ("came", "left")


@dataclass(frozen=True)
class CellStep:
    """A stage: an operator of the network.

    Parameters
    ----------
    view
        What later flows call its output.
    stage
        The operator.
    signature
        Equal for operators that do the same with the same rows, in whichever query.
    tap
        Equal for those that also want the same of it.
    depth
        How many exchanges rows pass on their way through it.
    inputs
        Per input what it wants of each source.
    columns
        Per input the columns that the operator wants.
    schema
        Of the table in which all inputs are logged.
    names
        Its columns, in an order in which all operators of its signature have them.
    instants
        The times that it asks for.
    placement
        Where its inputs send rows, if nothing else is chosen.
    """

    view: str
    stage: Stage
    signature: str
    tap: str
    depth: int
    inputs: Inputs
    columns: tuple[tuple[str, ...], ...]
    schema: pa.Schema
    names: tuple[str, ...]
    instants: Instants | None = None
    placement: Placement = NOWHERE
    _placed: dict[Placement, Inputs] = field(default_factory=dict, init=False, repr=False, compare=False)

    def placed(self, placement: Placement, grid: Grid) -> Inputs:
        """What its inputs want, sent to cells by some placement: the same ones for the same."""
        if placement == self.placement:
            return self.inputs
        if placement not in self._placed:
            self._placed[placement] = tuple(
                tuple(
                    replace(wanted, cell=wanted.select.inlined(grid.cell(each, wanted.schema, placement, number)))
                    for wanted in inputs
                )
                for number, (each, inputs) in enumerate(zip(self.stage.distributions, self.inputs, strict=True))
            )
        return self._placed[placement]

    @property
    def title(self) -> str:
        """What it is, for people."""
        return f"{self.stage.title} {self.stage.number}"

    @property
    def reads(self) -> frozenset[View]:
        """The views that it reads."""
        read = [wanted.select.source for each in self.inputs for wanted in each]
        times = [] if self.instants is None else [self.instants]
        return frozenset(view for source in (*read, *times) for view in source.views)


@dataclass(frozen=True)
class FilterStep:
    """Conditions that run as an adaptive filter over a flow, behind so many exchanges."""

    view: str
    flow: Sql
    conditions: tuple[Scalar, ...]
    depth: int

    @property
    def title(self) -> str:
        """What it is, for people."""
        return f"filter {' and '.join(each.sql for each in self.conditions)}"

    @property
    def reads(self) -> frozenset[View]:
        """The views that it reads."""
        return self.flow.views


@dataclass(frozen=True)
class LookUpStep:
    """Rows of a flow, combined with those of a table through an index; see `planning/index_look_up.py`.

    Parameters
    ----------
    view
        What later flows call the combinations.
    flow
        The rows, behind so many exchanges.
    table
        The rows of the table, from these `relations`.
    pairs, probes
        What has to hold.
    schema
        Of the combinations.
    """

    view: str
    flow: Sql
    table: Sql
    relations: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]
    probes: tuple[Probe, ...]
    schema: pa.Schema
    depth: int

    @property
    def title(self) -> str:
        """What it is, for people."""
        return f"look-up in {', '.join(self.relations)}"

    @property
    def reads(self) -> frozenset[View]:
        """The views that it reads."""
        return self.flow.views | self.table.views


Step: TypeAlias = CellStep | FilterStep | LookUpStep


@dataclass(frozen=True)
class Program:
    """What to do in a tick.

    Parameters
    ----------
    inputs
        Views to bind first.
    steps
        One after the other; each binds its view for what follows.
    answer
        The answer: the plan's columns, `_time` and `_weight`.
    schema
        Of the answer.
    held
        How long rows of each stream are needed after their time.
    reads
        The columns of each stream that are read.
    summaries
        Texts that sum up a batch of a stream, by the names of the summaries.
    """

    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    answer: Sql
    schema: pa.Schema
    held: dict[str, int]
    reads: dict[str, list[str]]
    summaries: dict[str, str]

    def describe(self) -> str:
        """Its steps, a line for each: what it does, behind how many exchanges, and what it reads."""
        titles = {each.view: each.title for each in (*self.inputs, *self.steps)}
        lines = []
        for step in self.steps:
            read = ", ".join(sorted(titles[view.name] for view in step.reads))
            lines.append(f"runs {step.title} (layer {step.depth}) over {read}")
        read = ", ".join(sorted(titles[view.name] for view in self.answer.views))
        return "\n".join([*lines, f"answers with {read}"])

    @property
    def constants(self) -> set[str]:
        """The relations that must not change: it has read their rows once and for all."""
        return {each.name for each in self.inputs if each.kind == "table"}

    @property
    def views(self) -> list[str]:
        """The views that are bound for it alone."""
        return [each.view for each in self.steps]

    @property
    def operators(self) -> list[CellStep]:
        """The steps with state."""
        return [step for step in self.steps if isinstance(step, CellStep)]
