"""A join that follows constraints of its inputs, and keeps the rows that the data needs.

After each tick a keeper (`constraints/keeper.py`) says which rows will not be needed. With `discard` they are
forgotten; with `exact` they are put on disk (`cold_rows.py`). Before new rows look for partners, those rows on disk to
which they lead come back, for this tick: so no result is ever missing, and there is one way to join.

>>> join = ConstrainedJoin(2, (((0, "a"), (1, "b")),), (), "auto", "exact")
>>> left = pa.table({"a": [7], "_key0": [7], "_start": [1], "_end": [9], "_weight": [1]})
>>> right = pa.table({"b": [7], "_key0": [7], "_start": [5], "_end": [20], "_weight": [1]})
>>> join.advance([left, right], Tick(0, 6)).to_pylist()
[{'a': 7, 'b': 7, '_start': 5, '_end': 9, '_weight': 1}]

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, chapter 6.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from anabranch.constraints.components import OBSERVED_KEY
from anabranch.constraints.config import ConstraintConfig, Mode
from anabranch.constraints.constraint_report import ConstraintChange, ConstraintReport, Followed, KeyFound
from anabranch.constraints.keeper import Keeper
from anabranch.constraints.kept_rows import Bytes
from anabranch.constraints.key_observer import KeyComparison, KeyObserver
from anabranch.joins.probe_pipeline import Combinations
from anabranch.joins.window_store import Key
from anabranch.model.arrays import Counts, Mask
from anabranch.model.names import without_number
from anabranch.operators.base import EVER, Tick
from anabranch.operators.cold_rows import ColdRows
from anabranch.operators.comparisons import Comparison
from anabranch.operators.join import KeyClass, MultiJoin
from anabranch.operators.key_duplicates import duplicates
from anabranch.operators.window_rows import TickNews, WindowRows

REASON, NUMBER = "_reason", "_number"
"""With rows on disk: by which constraint they went, and their numbers among those of their input."""
CONFIG = ConstraintConfig()
TRIAL_ARRIVALS = 10_000
LONGEST_PAUSE = 64
"""Ticks in which nobody looks whether a column is a key that was none the last times."""
LEAST_GOING = 4096
LEAST_SHARE = 0.25
"""Rows go when they are so many, and such a share of a window: windows are written anew for that."""
LEARNED = ("_keeper", "_kept", "_last", "_void", "_rescued", "_forgotten", "_said", "_pauses")
"""What is written with a state, beside its rows."""
_NONE = np.empty(0, np.int64)
Declared = tuple[tuple[int, tuple[str, ...]], ...]


class ConstrainedJoin(MultiJoin):
    """A join that lets rows go, where its inputs say both ends of their rows at once.

    Parameters
    ----------
    inputs, keys, comparisons, policy, leading
        As for `MultiJoin`.
    mode
        What becomes of rows that are not needed.
    declared
        Columns that are keys: the number of an input, and names.
    titles
        What inputs are called, for people.
    take_back
        Inputs that take rows back: then whole windows are kept.
    """

    goes_to_disk = False  # by constraints, not by a limit

    def __init__(
        self,
        inputs: int,
        keys: tuple[KeyClass, ...],
        comparisons: tuple[Comparison, ...],
        policy: str,
        mode: Mode,
        declared: Declared = (),
        titles: tuple[str, ...] = (),
        take_back: tuple[str, ...] = (),
        leading: tuple[int, ...] = (),
    ) -> None:
        super().__init__(inputs, keys, comparisons, policy, leading)
        self.config = replace(CONFIG, mode=mode)
        self._take_back = take_back
        self._declared, self._titles = declared, titles or tuple(map(str, range(inputs)))
        tree = self._trees[0]
        self._edges = [(tree.parents[other], other, tree.keys[other]) for other in tree.others]
        self._indexed = [{each.keys[number] for each in self._trees if each.root != number} for number in range(inputs)]
        self._edge_keys = sorted({key for _, _, key in self._edges})
        self._keeper: Keeper | None = None
        self._kept: list[WindowRows] = []
        near = [sorted({key for one, other, key in self._edges if n in (one, other)}) for n in range(inputs)]
        self._aside = [ColdRows(keys_of) for keys_of in near]
        self._void = [0] * inputs
        self._sizes = [0] * inputs
        self._pauses: dict[tuple[int, int], tuple[int, int]] = {}
        self._returned: list[tuple[int, Counts]] = []
        self._blamed: set[int] = set()
        self._last = EVER
        self._rescued = self._forgotten = 0
        self._said: dict[object, KeyFound | Followed] = {}
        self._changes: list[ConstraintChange] = []

    @property
    def idle(self) -> str:
        """Why constraints are not looked for, if so."""
        if self._take_back:
            return f"{' and '.join(self._take_back)} may take rows back"
        if not all(key for _, _, key in self._edges):
            return "some inputs have no column in common"
        if not all(key in self._indexed[one] and key in self._indexed[other] for one, other, key in self._edges):
            return "keys of several columns overlap"
        return ""

    def limit_memory(self, limit: int | None) -> None:
        """Which rows go, constraints say."""

    def limit_caches(self, cache_bytes: int) -> None:
        """There are none where rows go: they go too often."""
        if self.idle:
            super().limit_caches(cache_bytes)

    def absorb(self, inputs: Sequence[pa.Table], tick: Tick) -> None:
        """As `advance`: what is set aside depends on what is found."""
        if self._keeper is not None and self.config.mode == "exact":
            self.advance(inputs, tick)
        else:
            super().absorb(inputs, tick)

    def snapshot(self) -> list[pa.Table]:
        """The elements of each input, in memory and on disk, and what is known of them."""
        if not self._windows:
            return []
        hot = super().snapshot()
        aside = [
            pa.concat_tables([_beside(each.slice(0, 0), _NONE, _NONE), *cold.tables()])
            for each, cold in zip(hot, self._aside, strict=True)
        ]
        learned = tuple(getattr(self, name) for name in LEARNED)
        return [*hot, *aside, pa.table({"learned": pa.array([pickle.dumps(learned)], pa.binary())})]

    def restore(self, tables: Sequence[pa.Table]) -> None:
        """Take over elements, and what was known of them."""
        if not tables:
            return
        hot, aside, (learned,) = tables[: self.inputs], tables[self.inputs : -1], tables[-1]["learned"].to_pylist()
        super().restore(hot)
        for name, value in zip(LEARNED, pickle.loads(learned), strict=True):
            setattr(self, name, value)
        self._sizes = [len(window) for window in self._windows]
        if self._keeper is None:
            return
        for kept, window in zip(self._kept, self._windows, strict=True):
            kept.rows = window
        for cold, window, table in zip(self._aside, self._windows, aside, strict=True):
            cold.add(table, window.codes(table))

    def take_constraints(self) -> ConstraintReport | None:
        """What is known of the inputs, and what it has saved."""
        changes, self._changes = tuple(self._changes), []
        if self._keeper is None:
            return ConstraintReport(self.config.mode, self.idle)
        share = self.config.sample_share
        return ConstraintReport(
            self.config.mode,
            rows=super().held_rows,
            aside=sum(map(len, self._aside)),
            aside_bytes=self.file_bytes,
            forgotten=self._forgotten,
            rescued=self._rescued,
            missing=self._keeper.late * (1 - share) / share if share and self.config.mode == "discard" else 0.0,
            keys=tuple(each for each in self._said.values() if isinstance(each, KeyFound)),
            used=tuple(each for each in self._said.values() if isinstance(each, Followed)),
            changes=changes,
        )

    @property
    def held_bytes(self) -> int:
        """Bytes in memory, with what is known of rows and with the filters of those on disk."""
        beside = self._keeper.nbytes if self._keeper is not None else 0
        return super().held_bytes + beside + sum(each.nbytes for each in self._aside)

    @property
    def file_bytes(self) -> int:
        """Bytes on disk."""
        return sum(each.file_bytes for each in self._aside)

    def _begin(self, schemas: Sequence[pa.Schema]) -> None:
        super()._begin(schemas)
        if self._keeper is not None or self.idle or self.config.mode == "off":
            return
        places = {key: place for place, key in enumerate(self._edge_keys)}
        pairs = [KeyComparison(one, other, places[key], places[key]) for one, other, key in self._edges]
        ends = [(number, places[key]) for one, other, key in self._edges for number in (one, other)]
        declared = {each for each in ends if any(self._is_within(columns, *each) for columns in self._declared)}
        called = {each: f"{self._titles[each[0]]} ({', '.join(self._shown(*each))})" for each in ends}
        keys = KeyObserver(self.inputs, pairs, declared, TRIAL_ARRIVALS, called)
        links = len(keys.graph().links)
        self._kept = [WindowRows(window, self._edge_keys, links) for window in self._windows]
        self._keeper = Keeper(keys, self._kept, self.config)

    def _names(self, number: int, place: int) -> tuple[str, ...]:
        return tuple(self._columns[each][number] for each in self._edge_keys[place])

    def _shown(self, number: int, place: int) -> tuple[str, ...]:
        return tuple(map(without_number, self._names(number, place)))

    def _is_within(self, declared: tuple[int, tuple[str, ...]], number: int, place: int) -> bool:
        return declared[0] == number and set(declared[1]) <= set(self._names(number, place))

    def _combinations(self, inputs: Sequence[pa.Table]) -> list[Combinations]:
        self._bring_back(inputs)
        return super()._combinations(inputs)

    def _bring_back(self, inputs: Sequence[pa.Table]) -> None:
        """Of the rows on disk, those to which new rows lead: they are in their windows for this tick, as old ones."""
        self._returned = []
        if not any(map(len, self._aside)):
            return
        found: dict[int, list[pa.Table]] = {}
        for number, table in enumerate(inputs):
            if len(table):
                self._lead(number, None, self._windows[number].codes(table), found)
        for number, tables in found.items():
            whole = pa.concat_tables(tables)
            _, once = np.unique(whole[NUMBER].to_numpy(), return_index=True)
            rows = whole.take(pa.array(once))
            self._windows[number].append(rows.drop_columns([REASON, NUMBER]))
            told = rows[NUMBER].to_numpy() > self._void[number]
            self._returned.append((number, np.where(told, rows[REASON].to_numpy(), 0)))

    def _lead(self, here: int, back: int | None, codes: dict[Key, Counts], found: dict[int, list[pa.Table]]) -> None:
        """Follow the edges from rows of an input, with their codes, to all rows on disk behind them."""
        for one, two, key in self._edges:
            other = two if one == here else one
            if here not in (one, two) or other == back or not self._any_cold(other, here):
                continue
            cold = self._aside[other].find(key, np.unique(codes[key]))
            if cold is not None:
                found.setdefault(other, []).append(cold)
            onward = [k for a, b, k in self._edges if other in (a, b) and here not in (a, b)]
            if onward:
                store = self._windows[other].store
                near = np.flatnonzero(np.isin(store.codes(key), codes[key]))
                reached = {k: store.codes(k)[near] for k in onward}
                if cold is not None:
                    more = self._windows[other].codes(cold)
                    reached = {k: np.concatenate((values, more[k])) for k, values in reached.items()}
                self._lead(other, here, reached, found)

    def _any_cold(self, here: int, back: int) -> bool:
        """Whether rows are on disk of an input, or of one behind it."""
        near = [two if one == here else one for one, two, _ in self._edges if here in (one, two)]
        return bool(len(self._aside[here])) or any(self._any_cold(each, here) for each in near if each != back)

    def _gathered(self, found: Sequence[Combinations]) -> pa.Table:
        for number, reasons in self._returned:
            first = self._sizes[number]
            for each in found:
                rows = each.rows[number]
                needed = rows[(rows >= first) & (rows < first + len(reasons))]
                self._rescued += len(needed)
                self._blamed |= set(reasons[needed - first].tolist())
        return super()._gathered(found)

    def _tidy(self, tick: Tick) -> None:
        if self._keeper is None:
            super()._tidy(tick)
            return
        for number, reasons in self._returned:
            window, first = self._windows[number], self._sizes[number]
            gone = np.zeros(len(window), np.bool_)
            gone[first : first + len(reasons)] = True
            window.drop(gone)
        self._returned = []
        self._follow(self._keeper, tick)
        for number, window in enumerate(self._windows):
            before = len(window)
            _, over = window.tidy(tick.until)
            if over is not None and len(self._kept[number]):
                self._kept[number].forget(np.arange(before) < over if isinstance(over, int) else over)
        self._sizes = [len(window) for window in self._windows]
        for cold in self._aside:
            cold.expire(tick.until)

    def _follow(self, keeper: Keeper, tick: Tick) -> None:
        """Let the keeper see what has come, and let go what it says."""
        if not keeper.graph.directed:
            self._look_for_keys(keeper, tick)
            return
        self._take_note(tick)
        if all(kept.fresh == len(kept) for kept in self._kept):
            keeper.pass_time()
            return
        self._conclude(keeper, tick)
        if not keeper.graph.directed:
            for kept in self._kept:
                kept.forget(np.ones(len(kept), np.bool_))

    def _look_for_keys(self, keeper: Keeper, tick: Tick) -> None:
        """While there is no key, nothing follows from anything: rows are not followed."""
        assert keeper.keys is not None
        self._blamed = set()
        for number, place in keeper.keys.columns:
            new = len(self._windows[number]) - self._sizes[number]
            wait, pause = self._pauses.get((number, place), (0, 1))
            if new and wait:
                self._pauses[number, place] = wait - 1, pause
            elif new:
                duplicates, rows = self._duplicated(number, place)
                keeper.keys.observe(number, place, new, duplicates, rows)
                self._pauses[number, place] = (pause, min(2 * pause, LONGEST_PAUSE)) if duplicates else (0, 1)
        if keeper.keys.graph().directed:
            self._take_note(tick)
            news = self._news(tick)
            self._last = news.now
            keeper.follow_keys(news)
            self._void = [kept.arrived for kept in self._kept]
            self._note_changes(keeper)

    def _take_note(self, tick: Tick) -> None:
        """Of all rows that are not known yet."""
        for number, kept in enumerate(self._kept):
            kept.until = tick.until
            kept.arrive(self.config.seed, number, self.config.sample_share)

    def _news(self, tick: Tick) -> TickNews:
        return TickNews(self._kept, max(self._last, self._latest(tick)), self._duplicated)

    def _conclude(self, keeper: Keeper, tick: Tick) -> None:
        """New rows have come: what follows from them."""
        news = self._news(tick)
        times = np.concatenate([kept.time[kept.fresh :] for kept in self._kept])
        if len(times := times[times > EVER]):
            arrived = [news.count(number) for number in range(self.inputs)]
            keeper.no_keeper.arrive(arrived, [0] * self.inputs, int(times.min()), news.now)
        self._last = news.now
        keeper.pass_time()
        keeper.blame(self._blamed)
        graph = keeper.graph
        going = keeper.take(news)
        if keeper.graph is graph and OBSERVED_KEY in self._blamed and keeper.keys is not None:
            keeper.keys.doubt()  # no two rows of a key were there at once, and yet a row has found two partners
        self._blamed = set()
        if keeper.graph is not graph:  # what rows on disk went for is not said of this one
            self._void = [kept.arrived for kept in self._kept]
        for number, gone in enumerate(going):
            self._let_go(number, gone)
        keeper.tidy()
        self._note_changes(keeper)

    def _latest(self, tick: Tick) -> int:
        times = [int(kept.time[kept.fresh :].max()) for kept in self._kept if kept.fresh < len(kept)]
        return min(max(times), tick.until - 1)

    def _let_go(self, number: int, gone: Mask) -> None:
        kept, window = self._kept[number], self._windows[number]
        there = ~kept.expired()
        going = gone & there
        count = int(np.count_nonzero(going))
        if count < max(LEAST_GOING, LEAST_SHARE * np.count_nonzero(there), 1):
            return
        if self.config.mode == "exact":
            rows = _beside(window.table().filter(pa.array(going)), kept.reason[going], kept.sequence[going])
            self._aside[number].add(rows, window.codes(rows))
        else:
            self._forgotten += count
        kept.forget(going)
        window.drop(going)

    def _note_changes(self, keeper: Keeper) -> None:
        """What holds from now on, and what does not any more."""
        holds: dict[object, KeyFound | Followed] = {}
        assert keeper.keys is not None
        for number, place in keeper.keys.columns:
            if keeper.keys.is_key(number, place):
                declared = keeper.keys.is_declared(number, place)
                holds[number, place] = KeyFound(number, self._shown(number, place), declared)
        for each in keeper.constraints.all:
            if each.adherence.usable and each.adherence.used < -EVER:
                holds[each.kind, each.stream, each.partner] = Followed(
                    each.kind, each.stream, each.partner, each.adherence.used
                )
        self._changes += [ConstraintChange(each, True) for key, each in holds.items() if key not in self._said]
        self._changes += [ConstraintChange(each, False) for key, each in self._said.items() if key not in holds]
        self._said = holds

    def _duplicated(self, number: int, place: int) -> tuple[int, Sequence[Sequence[object]]]:
        """New rows of an input that have the key of a row which is there as well, and the first such two."""
        key = self._edge_keys[place]
        exact = len(key) == 1 and key[0] in self.pipelines[0].rules.exact
        names = () if exact else self._names(number, place)
        return duplicates(self._windows[number], self._aside[number], key, names, self._sizes[number])


def _beside(table: pa.Table, reasons: Bytes | Counts, numbers: Counts) -> pa.Table:
    table = table.append_column(REASON, pa.array(reasons, pa.int8()))
    return table.append_column(NUMBER, pa.array(numbers, pa.int64()))
