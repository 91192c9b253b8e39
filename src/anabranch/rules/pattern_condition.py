"""`contains` and `regex` with the patterns of all rules; a pattern that several rules have is searched once.

>>> from anabranch.rules.factors import Factor, Op
>>> condition = PatternCondition((Factor("line", Op.CONTAINS, "word"),), pa.table({"word": ["disk", "error", "disk"]}))
>>> [part.tolist() for part in condition.searched(pa.array(["no error", "disk full"]))]
[[0, 1, 1], [1, 0, 2]]
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from anabranch.model.arrays import Mask, Rows
from anabranch.rules.bucket_search import Small
from anabranch.rules.domains import Domain, plain
from anabranch.rules.factors import Condition, in_words
from anabranch.rules.parameters import parameter, parameter_domain, row_domain
from anabranch.rules.postings import Pairs, Postings, Tester
from anabranch.rules.text_patterns import patterns_of

PATTERN_COST = 100.0
"""A search for patterns in a text costs about as much as so many candidates."""


class PatternCondition:
    """`contains` and `regex`."""

    def __init__(self, condition: Condition, rules: pa.Table) -> None:
        self.condition = condition
        self.attribute = condition[0].attribute
        column = parameter(rules, condition[0])
        self._domain = parameter_domain(condition[0], column.type)
        coded = column.cast(pa.large_string()).dictionary_encode()
        self._codes: Small = coded.indices.to_numpy()
        self._patterns = patterns_of(condition[0].op, coded.dictionary)
        self._lists = Postings.of(self._codes, np.arange(len(self._codes)), len(coded.dictionary))
        self._bytes = coded.nbytes

    def __str__(self) -> str:
        return in_words(self.condition)

    @property
    def estimate(self) -> float:
        """What a search costs, in candidates; how often patterns match is not known before."""
        return PATTERN_COST

    @property
    def how(self) -> str:
        """How patterns are found, in words."""
        return self._patterns.how

    @property
    def nbytes(self) -> int:
        """Bytes in memory, without the automata."""
        return int(self._bytes + self._lists.nbytes)

    def domain(self, kind: pa.DataType) -> Domain:
        """How values of a type are read; an error if they are no texts."""
        return row_domain(self.condition[0], kind, self._domain)

    def searched(self, texts: pa.Array) -> Pairs:
        """Places of texts without NULLs and rules whose pattern is there, in the order of places."""
        rows, patterns = self._patterns.pairs(texts.cast(pa.large_string()))
        found, rules = self._lists.expanded(patterns)
        return rows[found], rules

    def tester(self, column: pa.Array) -> Tester:
        """Says which pairs of a row and a rule match."""
        texts = plain(column).cast(pa.large_string())

        def holds(rows: Rows, rules: Small) -> Mask:
            return self._patterns.holds(texts, rows, self._codes[rules].astype(np.int64))

        return holds
