"""What is known of a native predicate from the text of its plan, where the plan itself is out of reach.

A text does not tell literals from the rest of a condition. So everything that is not known to be harmless counts as if
it could fail, and keeps its place.

>>> kinds = {"a": "bigint", "text": "string", "n": "int"}
>>> read_condition("Filter ((a#2L > cast(5 as bigint)) AND RLIKE(text#3, [02468]$))\\n+- Range", kinds, ansi=True)
Condition(kind='pure', trivial=False, has_python=False, hidden=False, columns=('a', 'text'))
>>> read_condition("Filter ((a#2L / cast(n#3 as bigint)) > 1.5)\\n+- Range", kinds, ansi=True).kind
'fallible'
>>> read_condition("Filter (rand(3) > 0.5)\\n+- Range", kinds, ansi=True).kind
'volatile'
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from anabranch.model.predicates import Kind

COMPARING = frozenset("isnull isnotnull isnan coalesce length startswith endswith in and or not between".split())
HARMLESS = COMPARING | frozenset(
    """contains upper lower initcap substring substr trim ltrim rtrim lpad rpad repeat concat concat_ws reverse replace
    translate instr locate levenshtein soundex ascii hex base64 get_json_object if nvl nvl2 nullif greatest least size
    array_contains arrays_overlap sqrt exp pow hash xxhash64 md5 sha1 sha2 crc32 year quarter month day dayofmonth
    dayofweek weekday hour minute second datediff last_day rlike""".split()
)
RANDOM = frozenset(
    """rand randn random uuid shuffle monotonically_increasing_id spark_partition_id randstr uniform input_file_name
    current_timestamp now""".split()
)
LADDER = ["tinyint", "smallint", "int", "bigint", "float", "double"]

_CALL = re.compile(r"([A-Za-z_<][\w<>]*)\(")
_CAST = re.compile(r"cast\((-?[\d.]+|[^()]*?#\d+L?) as (\w+)\)")
_PATTERN = re.compile(r"RLIKE\([^(),]*#\d+L?, [^#]*?\)|[^\s(),]*#\d+L? (?:R|I)?LIKE [^#\s]*(?=$| AND | OR )")
_ARITHMETIC = re.compile(r" (?:[-+*/%]|div|DIV) |(?<![\w.])-(?=[A-Za-z_`(])|[\w)\]`]\[")
"""Operators that may fail in ANSI mode: also a minus before what is not a number, and elements of an array."""
_RESULT = re.compile(r"\)#\d+")


@dataclass(frozen=True)
class Condition:
    """What is known of a condition; see `NativePredicate`."""

    kind: Kind
    trivial: bool
    has_python: bool
    hidden: bool
    columns: tuple[str, ...]


def read_condition(plan: str, kinds: Mapping[str, str], *, ansi: bool) -> Condition:
    """Read the plan of a filter.

    Parameters
    ----------
    plan
        The analyzed plan, as `explain` prints it, without the line of its schema.
    kinds
        Names and types of the columns that it filters.
    ansi
        Whether the session is in ANSI mode, in which arithmetic may fail.
    """
    hidden = not plan.startswith("Filter ")
    text = plan[plan.index("Filter ") + len("Filter ") :].split("\n", 1)[0] if "Filter " in plan else ""
    columns = tuple(name for name in kinds if re.search(rf"(?<!\w){re.escape(name)}#\d+", text))
    plain = _without_safe_casts(text, kinds)
    calls = {name.lower() for name in _CALL.findall(plain)}
    patterns = "LIKE" in plain
    arithmetic = bool(_ARITHMETIC.search(_PATTERN.sub("", plain))) and ansi
    safe_patterns = not patterns or "LIKE" not in _PATTERN.sub("", plain)
    has_python = bool(_RESULT.search(text))
    kind: Kind = "fallible"
    if calls & RANDOM:
        kind = "volatile"
    elif calls <= HARMLESS and not arithmetic and safe_patterns and not has_python and text:
        kind = "pure"
    return Condition(kind, kind == "pure" and calls <= COMPARING and not patterns, has_python, hidden, columns)


def _without_safe_casts(text: str, kinds: Mapping[str, str]) -> str:
    """The text with casts that cannot fail left out; any other one stays, as a call of `cast`."""

    def shortened(found: re.Match[str]) -> str:
        value, target = found[1], found[2]
        name = re.sub(r"#\d+L?$", "", value)
        source = kinds.get(name, "int" if re.fullmatch(r"-?\d+", value) else "double")
        widens = source in LADDER and target in LADDER and LADDER.index(source) <= LADDER.index(target)
        return value if target == "string" or widens else found[0]

    return _CAST.sub(shortened, text)
