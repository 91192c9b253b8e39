"""A tick: what streams offer is put on the shelf, queries advance as far as time is complete, and it is committed.

All queries advance in one Spark job. If it fails, they are tried one by one: a query that cannot go on fails alone, and
the others do not notice.
"""

from __future__ import annotations

import logging
import shutil
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from anabranch.cells.base import FOREVER, TIME, WEIGHT, Tick
from anabranch.engine.failures import plain
from anabranch.engine.inputs import Progress, StreamInput, complete_until
from anabranch.engine.manifest import Manifest, QueryState, StoredFile
from anabranch.engine.query import OP, TS, ContinuousQuery
from anabranch.engine.store import WRITTEN_SQL, AnswerTask, ShelveTask, confirm, now, prefix_of, tick_of
from anabranch.model.continuous import Scalar, scans
from anabranch.planning.reading import read
from anabranch.spark.cell_task import CellReport, Reports, ReportsParam
from anabranch.spark.flows import Grid, TickFlows

BATCH_ROWS = 250_000

log = logging.getLogger("anabranch")


@dataclass
class Offer:
    """A batch of a stream that waits for the tick that takes it."""

    stream: StreamInput
    batch: int
    df: DataFrame
    done: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None


@dataclass
class Registry:
    """Everything that is registered, as ticks see it."""

    streams: dict[str, StreamInput] = field(default_factory=dict)
    relations: dict[str, DataFrame] = field(default_factory=dict)
    queries: dict[str, ContinuousQuery] = field(default_factory=dict)
    apply_filter: Callable[[str, DataFrame, Sequence[Scalar]], DataFrame] | None = None


@dataclass(frozen=True)
class Advance:
    """A query and how far it can go."""

    query: ContinuousQuery
    until: int


class TickRunner:
    """Runs ticks of one engine.

    Parameters
    ----------
    spark
        The session.
    folder
        Of the checkpoint.
    cells
        How many cells a stage has.
    registry
        Streams, relations and queries.
    """

    def __init__(self, spark: SparkSession, folder: Path, cells: int, registry: Registry) -> None:
        self._spark = spark
        self._folder = folder
        self._registry = registry
        self._grid = Grid.of(spark, cells)
        self._owner = uuid.uuid4().hex
        self._moment = now()
        self.reports: Reports = {}
        self.last: Reports = {}
        self.titles: dict[tuple[str, int], str] = {}

    def run(
        self, manifest: Manifest, offers: Sequence[Offer], idle: Mapping[str, bool], *, until: int | None = None
    ) -> Manifest:
        """The manifest after a tick, committed; queries go as far as time is complete, or up to `until` if given."""
        new = deepcopy(manifest)
        new.tick += 1
        self._moment = now()
        self.last = {}
        prefix = prefix_of(new.tick, uuid.uuid4().hex[:8])
        self._shelve(new, [offer for offer in offers if self._waits(new, offer.stream)], prefix)
        self._pass_through(new, offers, prefix)
        advances = [each for each in self._due(new, idle, until) if each.query.error is None]
        self._advance_all(new, advances, prefix)
        self._close(new)
        gone = self._forget(manifest, new)
        new.save(self._folder)
        for path in gone:
            path.unlink(missing_ok=True)
        return new

    def cuts(self, manifest: Manifest) -> list[int]:
        """Times up to which ticks go, so that none takes many more than `BATCH_ROWS` rows; the last one is the end."""
        ends = [state.newest + 1 for state in manifest.streams.values() if state.newest is not None]
        files = [file for state in manifest.streams.values() for file in state.files]
        pieces = sum(file.rows for file in files) // BATCH_ROWS
        if pieces < 2:
            return ends and [max(ends)]
        times = self._spark.read.parquet(*(str(self._folder / file.path) for file in files)).select(TIME)
        inner = times.approxQuantile(TIME, [n / pieces for n in range(1, pieces)], 0.1 / pieces)
        return [*sorted({int(each) for each in inner}), max(ends)]

    def schema_of(self, query: ContinuousQuery) -> StructType:
        """Columns of the answer; what does not fit together is found here, before anything runs."""
        answer, flows = self._answer(query, QueryState(""), FOREVER, "", {}, lambda name, _: self._empty(name))
        query.direct = not flows.stages and len(scans(query.query.plan, "stream")) == 1
        query.held = flows.held
        return answer.schema

    def _shelve(self, manifest: Manifest, offers: Sequence[Offer], prefix: str) -> None:
        if not offers:
            return
        parts = []
        for offer in offers:
            stream, state = offer.stream, manifest.streams[offer.stream.name]
            latest = self._latest(stream)
            task = ShelveTask(stream.name, str(self._folder), prefix, state.closed, latest)
            parts.append(timed(offer).mapInArrow(task, WRITTEN_SQL))
            state.batch = offer.batch
        for row in reduce(DataFrame.union, parts).collect():
            state = manifest.streams[row["name"]]
            if row["kind"] == "kept":
                state.rows += row["rows"]
                state.files.append(StoredFile(row["path"], row["rows"], row["first"], row["last"]))
                state.newest = row["last"] if state.newest is None else max(state.newest, row["last"])
                continue
            confirm(self._folder, row["path"])
            if row["kind"] == "late":
                state.late += row["rows"]
            else:
                state.unusable += row["rows"]

    def _due(self, manifest: Manifest, idle: Mapping[str, bool], given: int | None) -> list[Advance]:
        advances = []
        for query in self._registry.queries.values():
            if query.direct:
                continue
            names = scans(query.query.plan, "stream")
            until = self._complete(manifest, names, idle) if given is None else given
            if query.status == "running" and until is not None and until > manifest.queries[query.name].position:
                advances.append(Advance(query, until))
        return advances

    def _complete(self, manifest: Manifest, names: Sequence[str], idle: Mapping[str, bool]) -> int | None:
        streams = self._registry.streams
        return complete_until(
            {name: Progress(manifest.streams[name].newest, streams[name].skew, idle.get(name, False)) for name in names}
        )

    def _advance_all(self, manifest: Manifest, advances: Sequence[Advance], prefix: str) -> None:
        if not advances:
            return
        try:
            self._advance(manifest, advances, prefix)
        except Exception as error:
            if len(advances) > 1:
                for each in advances:
                    self._advance_all(manifest, [each], prefix)
                return
            query = advances[0].query
            query.error, query.status = plain(error), "failed"
            log.error("query %s failed and stands still: %s", query.name, query.error)

    def _advance(self, manifest: Manifest, advances: Sequence[Advance], prefix: str) -> None:
        reports = self._spark.sparkContext.accumulator({}, ReportsParam())
        parts = []
        for each in advances:
            state, name = manifest.queries[each.query.name], each.query.name
            self._begin(manifest, each, state)
            due = partial(self._rows, manifest, state, each.until)
            answer, _ = self._answer(each.query, state, each.until, prefix, reports, due)
            parts.append(answer.mapInArrow(AnswerTask(name, str(self._folder), prefix), WRITTEN_SQL))
        written = reduce(DataFrame.union, parts).collect()
        for each in advances:
            manifest.queries[each.query.name].position = each.until
        for row in written:
            confirm(self._folder, row["path"])
            manifest.queries[row["name"]].rows += row["rows"]
        for (name, stage, cell), report in reports.value.items():
            manifest.queries[name].logs.setdefault(stage, {})[cell] = report.log
        self.reports.update(reports.value)
        self.last.update(reports.value)

    def _begin(self, manifest: Manifest, advance: Advance, state: QueryState) -> None:
        """Time begins for a query with the first row of its streams."""
        for name in scans(advance.query.query.plan, "stream"):
            files = [file for file in manifest.streams[name].files if file.last >= state.position]
            firsts = [max(file.first, state.position) for file in files]
            if name not in state.origins and min(firsts, default=FOREVER) < advance.until:
                state.origins[name] = min(firsts)

    def _answer(
        self,
        query: ContinuousQuery,
        state: QueryState,
        until: int,
        prefix: str,
        reports: object,
        due: Callable[[str, int], DataFrame],
    ) -> tuple[DataFrame, TickFlows]:
        registry, name = self._registry, query.name
        flows = TickFlows(
            self._spark,
            f"{self._owner}/{name}",
            name,
            prefix,
            Tick(state.position, until),
            state.origins,
            due,
            registry.relations,
            {each.name: _order(each) for each in registry.streams.values()},
            self._grid,
            state.logs,
            str(self._folder / "state"),
            reports,  # type: ignore[arg-type]
            lambda df, conditions: self._filtered(name, df, conditions),
            begins=state.position == state.since,
        )
        answer = read(query.query, flows)
        self.titles.update({(name, stage.number): stage.title for stage in flows.stages})
        columns = zip(query.query.plan.columns, query.query.output, strict=True)
        told = [F.col(f"`{unique}`").alias(shown) for unique, shown in columns]
        op = [] if query.query.is_stream else [F.when(F.col(WEIGHT) > 0, "+").otherwise("-").alias(OP)]
        return answer.select(*told, F.timestamp_micros(F.col(TIME)).alias(TS), *op), flows

    def _filtered(self, query: str, df: DataFrame, conditions: Sequence[Scalar]) -> DataFrame:
        assert self._registry.apply_filter is not None, "functions are registered with an engine"
        return self._registry.apply_filter(query, df, conditions)

    def _waits(self, manifest: Manifest, stream: StreamInput) -> bool:
        """Whether rows of a stream have to be put on the shelf: for history, or for a query that takes them later."""
        readers = [name for name, state in manifest.queries.items() if stream.name in state.needs]
        known = [self._registry.queries.get(name) for name in readers]
        ready = [q is not None and q.direct and q.status == "running" and not self._missed(manifest, q) for q in known]
        return bool(stream.keep) or not ready or not all(ready)

    def _missed(self, manifest: Manifest, query: ContinuousQuery) -> list[StoredFile]:
        """What is on the shelf that a query has not taken as it came."""
        name, taken = scans(query.query.plan, "stream")[0], manifest.queries[query.name].tick
        return [file for file in manifest.streams[name].files if tick_of(Path(file.path)) > taken]

    def _pass_through(self, manifest: Manifest, offers: Sequence[Offer], prefix: str) -> None:
        """Queries without state answer rows as they come; only one that has missed some takes them from the shelf."""
        offered = {offer.stream.name: offer for offer in offers}
        direct = [each for each in self._registry.queries.values() if each.direct and each.status == "running"]
        for query in direct:
            name, state = scans(query.query.plan, "stream")[0], manifest.queries[query.name]
            missed = [file for file in self._missed(manifest, query) if not file.path.split("/")[-1].startswith(prefix)]
            offer = offered.get(name)
            if missed:
                rows = self._spark.read.schema(self._stored(name)).parquet(
                    *(str(self._folder / file.path) for file in self._missed(manifest, query))
                )
            elif offer is not None:
                rows = timed(offer)
            else:
                continue
            unseen = offer is not None and not missed and manifest.streams[name].batch != offer.batch
            if self._answer_directly(manifest, query, rows, offer if unseen else None, prefix, judged=bool(missed)):
                state.tick = manifest.tick
        for offer in offers:
            if manifest.streams[offer.stream.name].batch != offer.batch:
                self._shelve(manifest, [offer], prefix)  # its only reader has failed

    def _answer_directly(
        self,
        manifest: Manifest,
        query: ContinuousQuery,
        rows: DataFrame,
        offer: Offer | None,
        prefix: str,
        *,
        judged: bool,
    ) -> bool:
        """Answer rows of a batch, or rows from the shelf, of which it has been judged already what is late."""
        name = scans(query.query.plan, "stream")[0]
        usable = rows if judged else rows.where(self._usable(manifest, name))
        folder = self._folder / "answers" / query.name / f"{prefix}.parquet"
        try:
            answer, _ = self._answer(query, manifest.queries[query.name], FOREVER, prefix, {}, lambda *_: usable)
            answer.write.parquet(str(folder))
        except Exception as error:
            shutil.rmtree(folder, ignore_errors=True)
            query.error, query.status = plain(error), "failed"
            log.error("query %s failed and stands still: %s", query.name, query.error)
            return False
        manifest.queries[query.name].rows += sum(pq.read_metadata(part).num_rows for part in folder.glob("part-*"))
        if offer is not None:
            self._count(manifest, offer, prefix)
        return True

    def _count(self, manifest: Manifest, offer: Offer, prefix: str) -> None:
        """Book a batch that did not go over the shelf; only what is late or unusable does.

        A job of its own over the column of times costs less than `observe`, which takes rows out of generated code.
        """
        state, rows = manifest.streams[offer.stream.name], timed(offer)
        usable = self._usable(manifest, offer.stream.name)
        newest, kept, aside = F.max(F.when(usable, F.col(TIME))), F.count_if(usable), F.count_if(~usable)
        counts = rows.agg(newest.alias("newest"), kept.alias("rows"), aside.alias("aside")).head()
        assert counts is not None, "an aggregate has a row"
        if counts["aside"]:
            self._shelve(manifest, [replace(offer, df=rows.where(~usable).drop(TIME))], prefix)
        state.batch = offer.batch
        state.rows += counts["rows"]
        if counts["newest"] is not None:
            state.newest = max(counts["newest"], counts["newest"] if state.newest is None else state.newest)

    def _usable(self, manifest: Manifest, name: str) -> Column:
        """Whether a row has a time that can be, and is not late."""
        time, stream = F.col(TIME), self._registry.streams[name]
        return F.coalesce((time >= manifest.streams[name].closed) & (time <= self._latest(stream)), F.lit(False))

    def _latest(self, stream: StreamInput) -> int:
        """Rows after this time cannot be believed."""
        return FOREVER if stream.horizon is None else self._moment + stream.horizon

    def _rows(self, manifest: Manifest, state: QueryState, until: int, name: str, ago: int) -> DataFrame:
        """Rows of a stream whose time falls into the tick, or so many microseconds earlier."""
        start, until = max(state.position - ago, state.since), until - ago
        files = [f.path for f in manifest.streams[name].files if f.last >= start and f.first < until]
        if not files:
            return self._empty(name)
        stored = self._spark.read.schema(self._stored(name)).parquet(*(str(self._folder / path) for path in files))
        return stored.where((F.col(TIME) >= start) & (F.col(TIME) < until))

    def _empty(self, name: str) -> DataFrame:
        return self._spark.createDataFrame([], self._stored(name))

    def _stored(self, name: str) -> StructType:
        return StructType([*self._registry.streams[name].df.schema.fields, StructField(TIME, LongType())])

    def _close(self, manifest: Manifest) -> None:
        """What queries have been told is closed, and what streams have promised not to show any more."""
        for name, stream in self._registry.streams.items():
            state = manifest.streams[name]
            readers = [each for each in self._registry.queries.values() if name in scans(each.query.plan, "stream")]
            told = [manifest.queries[each.name].position for each in readers if not each.direct]
            promised = [] if state.newest is None else [state.newest - stream.skew]
            state.closed = max([state.closed, *told, *promised])
            for each in readers:
                if each.direct and manifest.queries[each.name].tick == manifest.tick:
                    manifest.queries[each.name].position = state.closed

    def _forget(self, old: Manifest, new: Manifest) -> list[Path]:
        """Forget what no query and no history needs any more, also none that is yet to be registered again.

        Returns the files, to be deleted once that is committed.
        """
        deleted: list[Path] = []
        for name, stream in self._registry.streams.items():
            state = new.streams[name]
            readers = [each for each in new.queries.values() if name in each.needs]
            waiting = [each.position - each.needs[name] for each in readers if not each.direct]
            ticks = [each.tick for each in readers if each.direct]
            needed, taken = min([state.closed, *waiting]) - stream.keep, min(ticks, default=new.tick)
            gone = [file for file in state.files if file.last < needed and tick_of(Path(file.path)) <= taken]
            state.files = [file for file in state.files if file not in gone]
            deleted += [self._folder / file.path for file in gone]
        return deleted + [self._folder / "state" / path for path in _segments(old) - _segments(new)]


def timed(offer: Offer) -> DataFrame:
    """The rows of a batch with their time in microseconds."""
    return offer.df.withColumn(TIME, F.unix_micros(F.col(f"`{offer.stream.timestamp}`").cast("timestamp")))


def _order(stream: StreamInput) -> tuple[str, ...]:
    return (stream.sequence,) if stream.sequence else tuple(stream.df.columns)


def _segments(manifest: Manifest) -> set[str]:
    return {
        segment.path
        for query in manifest.queries.values()
        for cells in query.logs.values()
        for log_of_cell in cells.values()
        for segment in log_of_cell
    }


__all__ = ["CellReport", "Offer", "Registry", "TickRunner"]
