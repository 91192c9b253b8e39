"""Which rules hold for which rows: an index over the rules of a template.

All rules have the same factors and differ in constants. One condition gives candidates from an index of its constants;
the others are tested on these pairs of a row and a rule. So a row costs what it matches, and hardly more for a
thousand times as many rules.

>>> from anabranch.rules.factors import Factor, Op
>>> rules = pa.table({"sensor": ["s1", "s2", "s1"], "limit": [40.0, 10.0, 50.0]})
>>> index = PredicateIndex([Factor("sensor", Op.EQUAL, "sensor"), Factor("value", Op.GREATER, "limit")], rules)
>>> readings = pa.table({"sensor": ["s1", "s2", "s1"], "value": [45, 5, 60]})
>>> rows, found = index.match(readings)
>>> list(zip(rows.tolist(), found.tolist()))
[(0, 0), (2, 0), (2, 2)]
>>> changed = index.added(pa.table({"sensor": ["s2"], "limit": [1.0]})).removed([0])
>>> [part.tolist() for part in changed.match(readings)]
[[1, 2], [3, 2]]

Notes
-----
*PSoup*'s query SteM is this index, its SQCs are rules, its boolean factors `R.a RELOP c` are factors, the constants c
columns of the table of rules.

*Differs from the paper*: PSoup probes the trees of all attributes and counts, per query, the factors that hold. Here
one condition is probed, and the others are tested on its candidates. Factors of two attributes are not for this index.

Values compare as in Spark SQL: NULL matches nothing, NaN is equal to NaN and larger than all numbers, -0.0 is 0.0,
texts compare by their bytes. Numbers of different types compare exactly; Spark rounds long integers and decimals to
doubles where it compares them with doubles. `domains` lists the types; what does not compare is an error.

References
----------
Chandrasekaran and Franklin, *PSoup: a system for streaming queries over streaming data*, section 4.2.2.
Madden et al., *Continuously adaptive continuous queries over streams*: grouped filters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.errors import DataError, QueryError, UnknownColumn, suggest
from anabranch.model.arrays import Rows
from anabranch.rules.factors import Condition, Factor, in_words
from anabranch.rules.parameters import parameter_domain
from anabranch.rules.pattern_condition import PatternCondition
from anabranch.rules.rule_block import AnyCondition, RuleBlock

ADDED_SHARE = 1 / 8
FEWEST_ADDED = 1_000
"""Rules that were added later are merged with the others once they are more than these, and more than that share."""
REMOVED_SHARE = 1 / 4
"""Removed rules are dropped once they are more than this share."""


class PredicateIndex:
    """The rules of one template. It does not change: `added` and `removed` give another one, which shares most of it.

    Parameters
    ----------
    factors
        All of them must hold for a row and a rule.
    rules
        A row per rule, a column per parameter; further columns are not held. Rules are numbered from 0 as they come,
        and keep their numbers.
    selectivities
        Per parameter the share of the rules for which its factor holds, on average over rows, as far as it is known.
        They choose which condition gives access, until rows have been seen.
    """

    def __init__(
        self, factors: Sequence[Factor], rules: pa.Table, selectivities: Mapping[str, float] | None = None
    ) -> None:
        self.factors = tuple(factors)
        self._shares = dict(selectivities or {})
        self._check()
        held = self._parameters(rules)
        self._main = self._block(held, np.arange(len(rules)))
        self._later = self._block(held.slice(0, 0), np.empty(0, np.int64))
        self._next = len(rules)

    def __len__(self) -> int:
        return len(self._main) + len(self._later)

    @property
    def numbers(self) -> Rows:
        """The numbers of the rules that there are, ascending."""
        return np.concatenate([block.living()[1] for block in self._blocks])

    @property
    def access(self) -> Condition:
        """The factors that give candidates: those of the condition with the fewest of them, as far as is known."""
        return self._main.access.condition if self._main.conditions else self.factors[:1]

    @property
    def nbytes(self) -> int:
        """Bytes in memory, without automata for text patterns."""
        return sum(block.nbytes for block in self._blocks)

    @property
    def _blocks(self) -> tuple[RuleBlock, RuleBlock]:
        return self._main, self._later

    def check(self, rows: pa.Schema) -> None:
        """Raise an error unless rows of a schema can be matched."""
        for factor in self.factors:
            if factor.attribute not in rows.names:
                raise UnknownColumn(factor.attribute, rows.names, where=f"factor {str(factor)!r}")
        for block in self._blocks:
            for condition in block.conditions:
                kind = rows.field(condition.attribute).type
                if not pa.types.is_null(kind):
                    condition.domain(kind)

    def match(self, rows: pa.Table) -> tuple[Rows, Rows]:
        """Pairs of a row's place and the number of a rule that holds for it.

        They are in the order of rows; the rules of a row come in any order.
        """
        self.check(rows.schema)
        if any(pa.types.is_null(rows.schema.field(factor.attribute).type) for factor in self.factors):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        (row, rule), (later_row, later_rule) = (block.match(rows) for block in self._blocks)
        if not len(later_row):
            return row, rule
        both = np.concatenate((row, later_row))
        order = np.argsort(both, kind="stable")
        return both[order], np.concatenate((rule, later_rule))[order]

    def added(self, rules: pa.Table) -> PredicateIndex:
        """The index with more rules; they get the next numbers."""
        held = self._parameters(rules)
        numbers = np.arange(self._next, self._next + len(rules))
        late, late_numbers = _joined(self._later.living(), (held, numbers))
        index = self._copy()
        index._next += len(rules)
        if len(late) > max(FEWEST_ADDED, ADDED_SHARE * len(self._main)):
            index._main = self._block(*_joined(self._main.living(), (late, late_numbers)), self._main)
            index._later = self._block(late.slice(0, 0), np.empty(0, np.int64))
        else:
            index._later = self._block(late, late_numbers)
        return index

    def removed(self, which: npt.ArrayLike) -> PredicateIndex:
        """The index without some rules.

        Parameters
        ----------
        which
            Numbers of rules, or a flag for each of `numbers`. Numbers that are not there are passed over.
        """
        chosen = np.asarray(which)
        if chosen.dtype == np.bool_:
            if len(chosen) != len(self):
                raise QueryError(f"{len(chosen)} flags for {len(self)} rules", hint="give a flag for each of `numbers`")
            chosen = self.numbers[chosen]
        index = self._copy()
        index._main, index._later = (self._without(block, chosen.astype(np.int64)) for block in self._blocks)
        return index

    def describe(self) -> str:
        """The template, how its rules are found, and what they take, in words."""
        lines = [f"{len(self):,} rules: {in_words(self.factors)}"]
        block = self._main if self._main.conditions else self._later
        if block.conditions:
            access = block.access
            expected = block.expected[block.conditions.index(access)]
            lines.append(f"access by {access}: {access.how}, about {expected:,.1f} candidates per row")
        others = [condition for condition in block.conditions if condition is not block.access]
        lines += [f"then {condition} is tested{_way(condition)}" for condition in others]
        gone = sum(len(block.numbers) - len(block) for block in self._blocks)
        lines.append(f"{len(self._later):,} rules were added later, {gone:,} are marked as removed")
        lines.append(f"{self.nbytes:,} bytes, {self.nbytes / max(len(self), 1):,.0f} per rule")
        return "\n".join(lines)

    def _check(self) -> None:
        if not self.factors:
            raise QueryError("an index needs at least one factor")
        parameters = [factor.parameter for factor in self.factors]
        for name in self._shares:
            if name not in parameters:
                raise QueryError(
                    f"unknown parameter {name!r} in selectivities", hint=suggest(name, parameters, "parameters")
                )

    def _parameters(self, rules: pa.Table) -> pa.Table:
        """The columns that factors read, with the types that the index has."""
        names = list(dict.fromkeys(factor.parameter for factor in self.factors))
        for name in names:
            if name not in rules.column_names:
                raise UnknownColumn(name, rules.column_names, where="the table of rules")
        held = rules.select(names)
        for factor in self.factors:
            kind = held.schema.field(factor.parameter).type
            if not pa.types.is_null(kind):
                parameter_domain(factor, kind)
        return held

    def _block(self, rules: pa.Table, numbers: Rows, before: RuleBlock | None = None) -> RuleBlock:
        measured = {} if before is None else before.measured()
        return RuleBlock(self.factors, rules, numbers, self._shares | measured)

    def _without(self, block: RuleBlock, numbers: Rows) -> RuleBlock:
        left = block.without(numbers)
        if len(left) == len(block):
            return block
        gone = len(left.numbers) - len(left)
        return self._block(*left.living(), block) if gone > REMOVED_SHARE * len(left.numbers) else left

    def _copy(self) -> PredicateIndex:
        index = PredicateIndex.__new__(PredicateIndex)
        index.__dict__.update(self.__dict__)
        return index


def _joined(held: tuple[pa.Table, Rows], more: tuple[pa.Table, Rows]) -> tuple[pa.Table, Rows]:
    """Rules and their numbers, with the types of those that are held."""
    rules, schema = more[0], held[0].schema
    for place, field in enumerate(schema):
        if pa.types.is_null(field.type):
            schema = schema.set(place, rules.schema.field(place))
    try:
        both = pa.concat_tables([held[0].cast(schema), rules.cast(schema)])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        what = f"rules of types {_types(rules.schema)} do not fit to those of types {_types(schema)}: {error}"
        raise DataError(what, hint="give parameters the types that they have in the index") from None
    return both.combine_chunks(), np.concatenate((held[1], more[1]))


def _types(schema: pa.Schema) -> str:
    return ", ".join(str(kind) for kind in schema.types)


def _way(condition: AnyCondition) -> str:
    return f" ({condition.how})" if isinstance(condition, PatternCondition) else ""
