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
from anabranch.joins.code_filter import CodeFilter
from anabranch.joins.probe_pipeline import Combinations
from anabranch.joins.window_store import Key
from anabranch.model.arrays import Counts, Mask, Rows
from anabranch.model.names import without_number
from anabranch.operators.base import EVER, FOREVER, Tick
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
LEAST_GOING = 512
LEAST_SHARE = 0.25
"""Rows go when they are so many, and such a share of a window: windows are written anew for that."""
LEAST_NEWS = 4096
NEWS_SHARE = 0.125
"""When so many rows have come, and such a share of those that are kept, it is concluded what follows from them."""
LEARNED = ("_keeper", "_kept", "_last", "_void", "_rescued", "_forgotten", "_said", "_pauses")
"""What is written with a state, beside its rows."""
_NONE = np.empty(0, np.int64)
NewCodes = dict[tuple[int, Key], CodeFilter]
"""The new rows of each input by each key that leads to others."""
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
        self._near = [sorted({key for one, other, key in self._edges if n in (one, other)}) for n in range(inputs)]
        self._aside = [ColdRows(keys_of) for keys_of in self._near]
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
        shares = [kept.share for kept in self._kept]
        return ConstraintReport(
            self.config.mode,
            rows=super().held_rows,
            aside=sum(map(len, self._aside)),
            aside_bytes=self.file_bytes,
            forgotten=self._forgotten,
            rescued=self._rescued,
            missing=self._keeper.missing(shares) if self.config.mode == "discard" else 0.0,
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
        graph = keys.graph()
        self._kept = [
            WindowRows(window, self._edge_keys, len(graph.links_of(number)))
            for number, window in enumerate(self._windows)
        ]
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
        codes = [self._windows[number].codes(table) for number, table in enumerate(inputs)]
        new = {(number, key): CodeFilter(codes[number][key]) for number, near in enumerate(self._near) for key in near}
        for number, table in enumerate(inputs):
            if len(table):
                self._lead(number, None, codes[number], found, new)
        for number, tables in found.items():
            whole = pa.concat_tables(tables)
            _, once = np.unique(whole[NUMBER].to_numpy(), return_index=True)
            rows = whole.take(pa.array(once))
            self._windows[number].append(rows.drop_columns([REASON, NUMBER]))
            told = rows[NUMBER].to_numpy() > self._void[number]
            self._returned.append((number, np.where(told, rows[REASON].to_numpy(), 0)))
        for number in found:
            self._look_at_returned(number)

    def _look_at_returned(self, number: int) -> None:
        """Of rows that come back, two may have a key: it is none then."""
        assert self._keeper is not None
        assert self._keeper.keys is not None
        for stream, place in self._keeper.keys.columns:
            if stream == number:
                repeated, rows = self._duplicated(number, place, ColdRows(()))
                if repeated:
                    self._keeper.keys.observe(number, place, 0, repeated, rows)

    def _lead(
        self,
        here: int,
        back: int | None,
        codes: dict[Key, Counts],
        found: dict[int, list[pa.Table]],
        new: NewCodes,
    ) -> None:
        """Follow the edges from rows of an input, with their codes, to all rows on disk behind them.

        Of the rows only those matter that may have a partner everywhere: on disk, in a window, or new.
        """
        near = [(two if one == here else one, key) for one, two, key in self._edges if here in (one, two)]
        near = [each for each in near if each[0] != back]
        if not any(self._any_cold(other, here) for other, _ in near):
            return
        for other, key in near:
            codes = _those(codes, self._may_meet(other, key, codes[key], new))
        aside: dict[int, pa.Table] = {}
        for other, key in near:
            if not len(codes[key]):
                return
            cold = self._aside[other].find(key, codes[key])
            if cold is not None:
                aside[other] = cold
            codes = _those(codes, self._meets(other, key, codes[key], new, cold))
        for other, key in near:
            if other in aside:
                found.setdefault(other, []).append(aside[other])
            onward = [k for a, b, k in self._edges if other in (a, b) and here not in (a, b)]
            if onward and len(codes[key]):
                store = self._windows[other].store
                ever = np.full(len(codes[key]), EVER), np.full(len(codes[key]), FOREVER)
                _, rows = store.matches(key, codes[key], *ever)
                reached = {k: store.codes(k)[rows] for k in onward}
                if other in aside:
                    more = self._windows[other].codes(aside[other])
                    reached = {k: np.concatenate((values, more[k])) for k, values in reached.items()}
                self._lead(other, here, reached, found, new)

    def _may_meet(self, other: int, key: Key, codes: Counts, new: NewCodes) -> Mask:
        """Whether there may be a row of an input with each code, as far as filters know."""
        may = self._aside[other].may_have(key, codes)
        left = np.flatnonzero(~may)
        may[left] = self._meets(other, key, codes[left], new, None)
        return may

    def _meets(self, other: int, key: Key, codes: Counts, new: NewCodes, cold: pa.Table | None) -> Mask:
        """Whether there is a row of an input with each code, in its window, among these from disk, or a new one."""
        ever = np.full(len(codes), EVER), np.full(len(codes), FOREVER)
        meets: Mask = self._windows[other].store.first_match(key, codes, *ever) >= 0
        meets |= new[other, key].may_have(codes)
        if cold is not None:
            meets |= np.isin(codes, self._windows[other].codes(cold)[key])
        return meets

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
        for kept in self._kept:
            kept.until = tick.until
        concluded = self._follow(self._keeper, tick)
        expired = [window.store.expired(tick.until) for window in self._windows]
        if not concluded and self._keeper.graph.directed and any(over is not None for over in expired):
            self._keeper.pass_time()  # as long as rows are there to which others point
        for over, window, kept in zip(expired, self._windows, self._kept, strict=True):
            if over is not None:
                if len(kept):
                    kept.forget(np.arange(len(window)) < over if isinstance(over, int) else over)
                window.drop(over)
        self._sizes = [len(window) for window in self._windows]
        for cold in self._aside:
            cold.expire(tick.until)

    def _follow(self, keeper: Keeper, tick: Tick) -> bool:
        """Let the keeper see what has come, and let go what it says; returns whether it has concluded anything."""
        if not any(len(window) > size for window, size in zip(self._windows, self._sizes, strict=True)):
            return False
        if not keeper.graph.directed:
            self._look_for_keys(keeper, tick)
            return False
        self._see_rates(keeper, tick)
        changed = self._observe_keys(keeper, tick)
        if not changed:
            self._turn_away(keeper)
        fresh, every = sum(len(kept) - kept.fresh for kept in self._kept), sum(map(len, self._kept))
        if not (changed or self._blamed) and fresh < max(LEAST_NEWS, NEWS_SHARE * every, 1):
            return False
        self._conclude(keeper, tick)
        if not keeper.graph.directed:
            for kept in self._kept:
                kept.forget(np.ones(len(kept), np.bool_))
        return True

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
            self._last = self._latest(tick)
            self._take_note()
            self._follow_keys(keeper, tick)
            self._note_changes(keeper)

    def _observe_keys(self, keeper: Keeper, tick: Tick) -> bool:
        """Look at the new rows; if keys have come or gone, the graph is another one."""
        assert keeper.keys is not None
        for number, place in keeper.keys.columns:
            new = len(self._windows[number]) - self._sizes[number]
            if new:
                keeper.keys.observe(number, place, new, *self._duplicated(number, place))
        if keeper.keys.graph() is keeper.graph or keeper.keys.graph() == keeper.graph:
            return False
        self._take_note()
        self._follow_keys(keeper, tick)
        return True

    def _follow_keys(self, keeper: Keeper, tick: Tick) -> None:
        keeper.follow_keys(self._news())
        for kept in self._kept:
            kept.settle()
        self._void = [kept.arrived for kept in self._kept]  # what rows on disk went for is not said of this graph

    def _take_note(self) -> None:
        """Of all rows that are not known yet."""
        for number, kept in enumerate(self._kept):
            sampled = kept.see(self.config, number)
            kept.arrive(np.ones(len(sampled), np.bool_), sampled)

    def _news(self) -> TickNews:
        return TickNews(self._kept, self._last, self._duplicated)

    def _see_rates(self, keeper: Keeper, tick: Tick) -> None:
        """How many rows have come, and when."""
        self._last = self._latest(tick)
        arrived = [len(window) - size for window, size in zip(self._windows, self._sizes, strict=True)]
        starts = [window.store.start[size:] for window, size in zip(self._windows, self._sizes, strict=True)]
        first = min(int(each.min()) for each in starts if len(each))
        if first > EVER:
            keeper.no_keeper.arrive(arrived, [0] * self.inputs, first, self._last)

    def _latest(self, tick: Tick) -> int:
        """The time of the latest row so far."""
        starts = [window.store.start[size:] for window, size in zip(self._windows, self._sizes, strict=True)]
        return max(self._last, min(max(int(each.max()) for each in starts if len(each)), tick.until - 1))

    def _turn_away(self, keeper: Keeper) -> None:
        """New rows whose partners have to be there, and are not, go before anything else is noted of them."""
        for number in reversed(keeper.graph.children_first):
            kept, window = self._kept[number], self._windows[number]
            store, first = window.store, self._sizes[number]
            sampled = kept.see(self.config, number)
            reasons = np.zeros(len(sampled), np.int8)
            begin, end = store.start[first:], store.end[first:]
            for link, reason, over in keeper.hopeless(number, begin, self._last):
                key, codes = self._edge_keys[link.column], kept.codes(link.column)[first:]
                alone = self._windows[link.partner].store.first_match(key, codes, begin, end) < 0
                reasons[alone & over] = reason
            reasons[sampled] = 0
            stays = reasons == 0
            going = np.flatnonzero(~stays)
            if len(going) < LEAST_GOING:
                kept.arrive(np.ones(len(stays), np.bool_), sampled)
                continue
            self._put_away(number, first + going, reasons[going], kept.arrived + 1 + going)
            window.drop(np.concatenate((np.zeros(first, np.bool_), ~stays)))
            kept.arrive(stays, sampled)

    def _conclude(self, keeper: Keeper, tick: Tick) -> None:
        """Enough rows have come: what follows from them."""
        keeper.expire()
        keeper.blame(self._blamed)
        going = keeper.take(self._news())
        if OBSERVED_KEY in self._blamed and keeper.keys is not None:
            keeper.keys.doubt()  # no two rows of a key were there at once, and yet a row has found two partners
        self._blamed = set()
        for number, gone in enumerate(going):
            self._let_go(number, gone)
        keeper.tidy()
        self._note_changes(keeper)

    def _let_go(self, number: int, gone: Mask) -> None:
        kept, window = self._kept[number], self._windows[number]
        if np.count_nonzero(gone) < max(LEAST_GOING, 1):
            return
        there = ~kept.expired()
        going = gone & there
        if np.count_nonzero(going) < max(LEAST_GOING, LEAST_SHARE * np.count_nonzero(there), 1):
            return
        rows = np.flatnonzero(going)
        self._put_away(number, rows, kept.reason[rows], kept.sequence[rows])
        kept.forget(going)
        window.drop(going)

    def _put_away(self, number: int, rows: Rows, reasons: Bytes, numbers: Counts) -> None:
        """Rows of a window are not needed, it is said: they go to disk, or are forgotten."""
        if self.config.mode == "exact":
            table = _beside(self._windows[number].take(rows), reasons, numbers)
            self._aside[number].add(table, self._windows[number].codes(table))
        else:
            self._forgotten += len(rows)

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

    def _duplicated(
        self, number: int, place: int, cold: ColdRows | None = None
    ) -> tuple[int, Sequence[Sequence[object]]]:
        """New rows of an input that have the key of a row which is there as well, and the first such two."""
        key = self._edge_keys[place]
        exact = len(key) == 1 and key[0] in self.pipelines[0].rules.exact
        names = () if exact else self._names(number, place)
        aside = self._aside[number] if cold is None else cold
        return duplicates(self._windows[number], aside, key, names, self._sizes[number])


def _those(codes: dict[Key, Counts], which: Mask) -> dict[Key, Counts]:
    places = np.flatnonzero(which)
    return {key: values[places] for key, values in codes.items()}


def _beside(table: pa.Table, reasons: Bytes | Counts, numbers: Counts) -> pa.Table:
    table = table.append_column(REASON, pa.array(reasons, pa.int8()))
    return table.append_column(NUMBER, pa.array(numbers, pa.int64()))
