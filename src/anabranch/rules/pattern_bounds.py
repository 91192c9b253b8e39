"""What texts must have at least to match the patterns of `Like` and `RLike`, in the words of the index.

Spark reads regular expressions as Java does, the index as RE2 does. Where both mean the same, or RE2 finds more, the
index takes the expression; else the empty one, which is found in every text. What the index finds is tested by Spark.

>>> like_bounds(pa.array(["disk%", "cpu%"]))
(<Op.PREFIX: 'prefix'>, <pyarrow.lib.StringArray object at ...>
[
  "disk",
  "cpu"
])
>>> [at_least(each) for each in ("er+or$", "(?i)error", "a(?=b)")]
['er+or[\\\\n\\\\r\\\\x{85}\\\\x{2028}\\\\x{2029}]{0,2}\\\\z', '', '']
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.rules.factors import Op

_LINE_END = r"[\n\r\x{85}\x{2028}\x{2029}]{0,2}\z"
_TOKEN = re.compile(
    r"""\\[dDwWsS]            # classes; of white space RE2 knows less
    | \\b                     # a border
    | \\[^\w\s]               # a character of its own
    | \(\?:
    | \[\^?(?:\\[dwDW]|\\[^\w\s]|[^\[\]\\&])+\]
    | \{\d+(?:,\d*)?\}\??
    | [*+?]\??
    | [^\\\[\]{}*+?]
    """,
    re.VERBOSE | re.DOTALL,
)
_MEANS = {"$": _LINE_END, r"\s": r"[\s\x0B]", r"\b": ""}
_PREFIX, _INSIDE = re.compile(r"([^%_\\]*)%+", re.DOTALL), re.compile(r"%+([^%_\\]*)%+", re.DOTALL)
_FORMS = ((Op.PREFIX, _PREFIX), (Op.CONTAINS, _INSIDE))


def like_bounds(patterns: pa.Array) -> tuple[Op, pa.Array]:
    """What is searched for instead of patterns of `Like`: one kind of search for all of them."""
    texts = patterns.to_pylist()
    for op, form in _FORMS:
        found = [None if text is None else form.fullmatch(text) for text in texts]
        if all(match or text is None for match, text in zip(found, texts, strict=True)):
            return op, pa.array([match and match[1] for match in found], pa.string())
    return Op.REGEX, pa.array([None if text is None else _of_like(text) for text in texts], pa.string())


def regex_bounds(patterns: pa.Array) -> pa.Array:
    """What is searched for instead of Java's regular expressions."""
    return pa.array([None if text is None else at_least(text) for text in patterns.to_pylist()], pa.string())


def at_least(pattern: str) -> str:
    """An expression of RE2 that is found wherever one of Java's is."""
    made, place = "", 0
    while place < len(pattern):
        found = _TOKEN.match(pattern, place)
        if found is None or (pattern.startswith("(?", place) and found[0] != "(?:"):
            return ""
        made, place = made + _MEANS.get(found[0], found[0]), found.end()
    return made if _is_valid(made) else ""


def _of_like(pattern: str) -> str:
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    means = {"%": ".*", "_": "."}
    return r"(?s)\A" + "".join(means.get(part, _literal(part[-1])) for part in parts) + r"\z"


def _literal(character: str) -> str:
    return character if character.isalnum() or ord(character) > 127 else f"\\x{{{ord(character):x}}}"


def _is_valid(expression: str) -> bool:
    try:
        pc.match_substring_regex(pa.array([""]), expression)
    except pa.ArrowInvalid:
        return False
    return True
