"""Random sets of queries through Spark: registered, paused, resumed, dropped and restarted, each says what it should.

The sets are those of `cql/query_sets.py`, which run in thousands without Spark; here they go through the whole engine.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import anabranch as ab
from anabranch.engine.query import ContinuousQuery
from cql.answers import answered
from cql.query_sets import SHARINGS, Event, QuerySet, query_set, said_since
from cql.streams import Stream
from spark.case_inputs import arrive, register_inputs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETS = 50 if os.environ.get("ANABRANCH_SOAK") else 2
MOST, FEW = 12, 4
SECONDS_PER_SET = 1200
"""A busy machine is slow."""


@dataclass
class Life:
    """A query of the set, and how far it has seen its streams."""

    text: str
    share: bool
    paused: bool = False
    shown: dict[str, int] = field(default_factory=dict)
    """Rows of each stream that had come when it last ran."""


class SparkNetwork:
    """The engine on Spark, with a set of queries.

    Parameters
    ----------
    made
        The set.
    folder
        For files that arrive, and for the checkpoint.
    rng
        Says who shares, if that is random.
    """

    def __init__(self, spark: SparkSession, made: QuerySet, folder: Path, rng: random.Random, sharing: str) -> None:
        self._spark, self._case, self._folder = spark, made.case, folder
        self._rng, self._sharing = rng, sharing
        self._lives: dict[str, Life] = {}
        self._tick = 0
        for stream in made.case.streams:
            (folder / stream.name).mkdir()
        self._open()

    def _open(self) -> None:
        self._engine = ab.Engine(self._spark, self._folder / "state", cells=self._case.cuts.cells)
        register_inputs(self._engine, self._spark, self._case, self._folder)
        for name, life in self._lives.items():
            self._engine.query(life.text, name, share=life.share)
        for name, life in self._lives.items():
            self._query(name).start()
            if life.paused:
                self._query(name).pause()

    def _query(self, name: str) -> ContinuousQuery:
        return self._engine.queries[name]

    def do(self, event: Event) -> None:
        """What a user does."""
        if event.kind == "restart":
            self._engine.stop()
            self._open()
        elif event.kind == "register":
            share = self._sharing == "on" or (self._sharing == "random" and self._rng.random() < 0.6)
            self._lives[event.query] = Life(event.text, share)
            self._engine.query(event.text, event.query, share=share).start()
        elif event.kind == "drop":
            self.check(event.query)
            self._engine.drop(event.query)
            del self._lives[event.query]
        else:
            getattr(self._query(event.query), event.kind)()
            self._lives[event.query].paused = event.kind == "pause"

    def arrive(self) -> None:
        """The files of the next tick."""
        for stream in self._case.streams:
            arrive(stream, self._case.cuts.batches[stream.name], range(self._tick, self._tick + 1), self._folder)
        self._tick += 1
        arrived = {name: sum(batches[: self._tick]) for name, batches in self._case.cuts.batches.items()}
        for name, life in self._lives.items():
            if not life.paused:
                self._query(name).await_idle()
                life.shown = arrived

    def check(self, name: str) -> None:
        """The query has said what the definition says, as far as it is."""
        state, life = self._engine._manifest.queries[name], self._lives[name]
        case = replace(self._case, query=life.text)
        until = state.position
        if self._engine._runtime.is_direct(self._query(name)):  # it answers rows as they come
            case = replace(case, streams=tuple(_shown(each, life.shown.get(each.name, 0)) for each in case.streams))
            until = 1 + max((row[1] for each in case.streams for row in each.rows), default=0)
        got, want = answered(self._query(name).to_dataframe()), said_since(case, state.since, until)
        assert got == want, f"{name} {life}\n{self._case}\nmissing {want - got}\nextra {got - want}"

    def end(self) -> None:
        """Compare all that are left, and stop."""
        for name in self._lives:
            self.check(name)
        self._engine.stop()


def _shown(stream: Stream, rows: int) -> Stream:
    return replace(stream, rows=tuple(stream.arrived[:rows]), arrival=())


def agrees(spark: SparkSession, folder: Path, number: int, most: int) -> None:
    made = query_set(number, most)
    network = SparkNetwork(spark, made, folder, random.Random(number), SHARINGS[number % len(SHARINGS)])
    for events in made.events:
        for event in events:
            network.do(event)
        network.arrive()
    network.end()


@pytest.mark.full(reason="every set is an engine of its own, for some ticks")
@pytest.mark.timeout(SECONDS_PER_SET)
@pytest.mark.parametrize("number", range(SETS))
def test_sets_of_queries_agree_with_the_definition_through_spark(
    number: int, spark: SparkSession, tmp_path: Path
) -> None:
    agrees(spark, tmp_path, number, MOST if os.environ.get("ANABRANCH_SOAK") else FEW)
