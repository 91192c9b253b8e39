"""Many rules on one stream: which of a hundred thousand conditions hold for a row.

`factors` says what rules are made of, `predicate_index` finds the rules of rows. Constants of rules become *slots*
(`slots`), which equality, interval, order and prefix indexes look up; `text_patterns` searches in texts.
"""

from anabranch.rules.factors import Factor, Op
from anabranch.rules.predicate_index import PredicateIndex

__all__ = ["Factor", "Op", "PredicateIndex"]
