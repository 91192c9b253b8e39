"""What operators of one layer leave for those of the next: rows of all taps in one frame, told apart by a number.

Operators that read such rows read the frame itself, each those of its tap. They then travel in one exchange as rows of
one source do (`exchange.py`), and a layer is read once, however many taps are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from anabranch.expressions import Scalar
from anabranch.spark.continuous.cell_task import NODE
from anabranch.spark.continuous.exchange import ExchangeInput
from anabranch.spark.continuous.flows import Select, View


@dataclass(frozen=True)
class TapOutput:
    """Where the rows of a tap are found.

    Parameters
    ----------
    layer
        What stands for all that the layer makes.
    number
        Of the tap.
    slots
        Its columns, each with the one that holds it in the layer's rows.
    """

    layer: View
    number: int
    slots: tuple[tuple[str, str], ...]

    @property
    def own(self) -> Scalar:
        """The condition that its rows meet."""
        return Scalar(exp.EQ(this=Scalar.reading(NODE).tree, expression=exp.Literal.number(self.number)))

    def instead(self, wanted: ExchangeInput) -> ExchangeInput:
        """The same rows and columns, of the layer."""
        names = dict(self.slots)
        items = tuple((name, scalar.renamed(names)) for name, scalar in wanted.select.items)
        conditions = (self.own, *map(self._tested, wanted.select.conditions))
        columns = tuple((name, scalar.renamed(names), kind) for name, scalar, kind in wanted.columns)
        return ExchangeInput(Select(self.layer, items, conditions), wanted.cell.renamed(names), columns)

    def _tested(self, condition: Scalar) -> Scalar:
        """A condition over slots; one that may fail is computed of the tap's own rows alone, and is NULL for others.

        What two conditions have in common Spark computes once, of every row, also where `And` would not get to it. In
        the rows of another tap a slot has other values: an end that is not known overflows when something is added.
        """
        slots = {name: Scalar.reading(slot) for name, slot in self.slots}
        if condition.may_fail:
            slots = {name: self._own_value(slots[name]) for name in condition.columns}
        return condition.substituted(slots)

    def _own_value(self, slot: Scalar) -> Scalar:
        return Scalar(exp.Case(ifs=[exp.If(this=self.own.tree, true=slot.tree)]))


def of_layers(wanted: ExchangeInput, outputs: Mapping[str, TapOutput]) -> ExchangeInput:
    """What is wanted of a tap's view, as wanted of its layer; all else as it is."""
    source = wanted.select.source
    found = outputs.get(source.name) if isinstance(source, View) else None
    return wanted if found is None else found.instead(wanted)
