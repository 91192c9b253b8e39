"""The exchange of a layer, made once for the same operators: ticks differ in rows, hardly ever in operators."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence

from anabranch.expressions import Scalar
from anabranch.spark.continuous.exchange import Exchange, ExchangeInput, Parcel
from anabranch.spark.continuous.flows import Instants
from anabranch.spark.continuous.sums_together import sums_together
from anabranch.spark.continuous.tap_outputs import TapOutput, of_layers

MOST_KEPT = 32
"""Layers whose exchange is kept: those of all queries that are equally far, and of some others."""


class LayerExchange:
    """What the operators of a layer want, on its way.

    Parameters
    ----------
    every
        A row for every cell.
    wanted
        All that they want.
    outputs
        What earlier layers have made, by the names of views.
    """

    def __init__(self, every: Scalar, wanted: Sequence[ExchangeInput], outputs: Mapping[str, TapOutput]) -> None:
        self._exchange = Exchange(every)
        self._wanted = list(wanted)  # which are known by their identity as long as they live
        self._instants: dict[Instants, int] = {}
        self._texts: dict[int, str] = {}
        found = [of_layers(each, outputs) for each in wanted]
        instead = sums_together(found)
        sent = [instead.get(each, each) for each in found]
        for each in sent:
            self._exchange.send(each)
        self._found = {id(own): self._exchange.found(each) for own, each in zip(wanted, sent, strict=True)}

    def found(self, wanted: ExchangeInput) -> Parcel:
        """Where rows are found."""
        return self._found[id(wanted)]

    def instants(self, times: Instants) -> int:
        """Let times go to every cell; returns the number of the parcel."""
        if times not in self._instants:
            self._instants[times] = self._exchange.instants(times)
        return self._instants[times]

    @property
    def text(self) -> str:
        """The rows on their way to cells."""
        count = len(self._instants)
        if count not in self._texts:
            self._texts[count] = self._exchange.text
        return self._texts[count]


class LayerExchanges:
    """Exchanges by what is wanted, those that were used longest ago first."""

    def __init__(self, every: Scalar) -> None:
        self._every = every
        self._made: OrderedDict[tuple[object, ...], LayerExchange] = OrderedDict()

    def of(self, wanted: Sequence[ExchangeInput], outputs: Mapping[str, TapOutput]) -> LayerExchange:
        """The exchange for what operators want, some of it of earlier layers: the same one for the same."""
        key = (*map(id, wanted), *outputs.items())
        if key not in self._made:
            self._made[key] = LayerExchange(self._every, wanted, outputs)
        self._made.move_to_end(key)
        while len(self._made) > MOST_KEPT:
            self._made.popitem(last=False)
        return self._made[key]
