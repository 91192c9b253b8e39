"""What the binder understands of a syntax tree: node by node, and of every node which of its parts.

The parser reads more than a continuous query can be. Everything that is not listed here is refused by its name, so that
no part of a query is ever passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp
from sqlglot.expressions import DType

from anabranch.cql.hints import is_leading
from anabranch.cql.problems import CQLError, problem, span

QUERIES = """
    Select: expressions from_ joins where group having distinct with_ hint
    Hint: expressions
    Subquery: this alias
    Union: this expression distinct with_
    Except: this expression distinct with_
    Intersect: this expression distinct with_
    With: expressions
    CTE: this alias
    From: this
    Table: this alias
    TableAlias: this columns
    Join: this on using method side kind
    Where: this
    Group: expressions
    Having: this
    Distinct: expressions
    Alias: this alias
    Star:
"""
EXPRESSIONS = """
    Column: this table db catalog
    Identifier: this quoted
    Dot: this expression
    Bracket: this expressions
    Literal: this is_string
    RawString: this
    HexString: this
    Boolean: this
    Null:
    Interval: this unit
    IntervalSpan: this expression
    Var: this
    Paren: this
    Tuple: expressions
    Not: this
    Neg: this
    BitwiseNot: this
    And: this expression
    Or: this expression
    EQ: this expression
    NEQ: this expression
    NullSafeEQ: this expression
    NullSafeNEQ: this expression
    LT: this expression
    LTE: this expression
    GT: this expression
    GTE: this expression
    Is: this expression
    Like: this expression negate
    ILike: this expression negate
    RegexpLike: this expression
    Escape: this expression
    Any: this
    All: this
    Between: this low high
    In: this expressions query
    Exists: this
    Add: this expression
    Sub: this expression
    Mul: this expression
    Div: this expression safe
    IntDiv: this expression
    Mod: this expression
    DPipe: this expression safe
    BitwiseAnd: this expression
    BitwiseOr: this expression
    BitwiseXor: this expression
    BitwiseLeftShift: this expression
    BitwiseRightShift: this expression
    Case: this ifs default
    If: this true false
    Cast: this to
    TryCast: this to safe
    DataType: this expressions nested
    DataTypeParam: this
    ColumnDef: this kind
    Lambda: this expressions
    Anonymous: this expressions
    Filter: this expression
    Extract: this expression
    Overlay: this expression from_ for_
    StrPosition: this substr position
    Substring: this start length
    Trim: this expression position
    Concat: expressions
"""
TYPES = {
    DType.ARRAY, DType.BIGINT, DType.BINARY, DType.BOOLEAN, DType.DATE, DType.DECIMAL, DType.DOUBLE, DType.FLOAT,
    DType.INT, DType.MAP, DType.SMALLINT, DType.STRUCT, DType.TEXT, DType.TIMESTAMP, DType.TIMESTAMPLTZ,
    DType.TIMESTAMPNTZ, DType.TIMESTAMPTZ, DType.TINYINT, DType.VARIANT,
}  # fmt: skip
OF_PARTS = {DType.ARRAY, DType.DECIMAL, DType.MAP, DType.STRUCT}
PARENTS: dict[type[exp.Expr], tuple[type[exp.Expr], ...]] = {
    exp.Any: (exp.Like, exp.ILike),
    exp.All: (exp.Like, exp.ILike),
    exp.Alias: (exp.Select, exp.Anonymous),
}
"""Nodes that mean something below certain others alone."""

NO_ORDER = "a relation has no order"
NO_OVER = f"{NO_ORDER}; use a window on the stream, as in s1 [Rows 10]"
EXPAND = "expand the column before it becomes a stream"
LIST = "list the columns"
COMPUTE = "leave it out, or compute it before the rows become a stream"
UNION = "use Union All of several queries"
FLAT = "write the joins without parentheses, or a query: (Select ... From ... Join ...) As t"
NAMES: dict[str, tuple[str, str]] = {
    "Select.order": ("Order By", f"{NO_ORDER}; sort the answer where it is used"),
    "Order": ("Order By", f"{NO_ORDER}; sort the answer where it is used"),
    "Select.limit": ("Limit", NO_OVER),
    "Limit": ("Limit", NO_OVER),
    "Fetch": ("Fetch", NO_OVER),
    "Select.offset": ("Offset", NO_OVER),
    "Select.qualify": ("Qualify", NO_OVER),
    "Select.windows": ("a named window", NO_OVER),
    "Window": ("Over", NO_OVER),
    "WithinGroup": ("Within Group", NO_OVER),
    "IgnoreNulls": ("Ignore Nulls", "use Filter (Where a Is Not Null)"),
    "RespectNulls": ("Respect Nulls", "leave it out"),
    "Select.sort": ("Sort By", NO_ORDER),
    "Select.cluster": ("Cluster By", NO_ORDER),
    "Select.distribute": ("Distribute By", "leave it out"),
    "Select.laterals": ("Lateral View", EXPAND),
    "Lateral": ("Lateral", EXPAND),
    "Select.locks": ("For Update", "leave it out"),
    "Union.by_name": ("Union By Name", "list the columns of both sides in the same order"),
    "JSONExtract": ("the operator ->", "use get_json_object"),
    "Select.hint": ("a hint", "leave it out, or pin the order of a join: /*+ Leading(b, a) */"),
    "Select.into": ("Into", "write Create Query name Into 'parquet' With (...) As Select ..."),
    "Select.kind": ("Select As", LIST),
    "Distinct.on": ("Distinct On", "use a window, as in s1 [Partition By k Rows 1]"),
    "With.recursive": ("With Recursive", "a continuous query has no recursion"),
    "CTE.materialized": ("Materialized", "leave it out"),
    "Group.rollup": ("Rollup", UNION),
    "Rollup": ("Rollup", UNION),
    "Group.cube": ("Cube", UNION),
    "Cube": ("Cube", UNION),
    "Group.grouping_sets": ("Grouping Sets", UNION),
    "GroupingSets": ("Grouping Sets", UNION),
    "Group.totals": ("With Totals", UNION),
    "Group.all": ("Group By All", LIST),
    "Star.except_": ("* Except", LIST),
    "Star.replace": ("* Replace", LIST),
    "Star.rename": ("* Rename", LIST),
    "Table.db": ("a name of several parts", "streams and relations have names of one part"),
    "Table.sample": ("Tablesample", "filter by a hash of a column, as in Where pmod(xxhash64(k), 100) < 5"),
    "Subquery.sample": ("Tablesample", "filter by a hash of a column, as in Where pmod(xxhash64(k), 100) < 5"),
    "Table.pivots": ("Pivot", "use one aggregate per column, as in Sum(a) Filter (Where k = 1)"),
    "Subquery.pivots": ("Pivot", "use one aggregate per column, as in Sum(a) Filter (Where k = 1)"),
    "Table.version": ("As Of", "use a window on the stream"),
    "Values": ("Values", "register the rows as a relation"),
    "Unnest": ("Unnest", EXPAND),
    "In.unnest": ("Unnest", EXPAND),
    "In.field": ("In without parentheses", "write In (a, b)"),
    "Between.symmetric": ("Between Symmetric", "use least and greatest"),
    "SimilarTo": ("Similar To", "use RLike, with a regular expression"),
    "Placeholder": ("a parameter", "write the value"),
    "Parameter": ("a parameter", "write the value"),
    "Kwarg": ("an argument by name", "give the arguments by their places"),
    "Any": ("Any", "use Exists, In, or Max(...) of a condition"),
    "All": ("All", "use Not Exists, or Min(...) of a condition"),
    "Alias": ("As in an expression", "name the column as a whole, as in a + 1 As b"),
    "Subquery.joins": ("a nested join", FLAT),
    "Table.joins": ("a nested join", FLAT),
}  # fmt: skip


def _read(table: str) -> Iterator[tuple[type[exp.Expr], frozenset[str]]]:
    for line in table.strip().splitlines():
        name, parts = line.strip().split(":")
        yield getattr(exp, name), frozenset(parts.split())


UNDERSTOOD: dict[type[exp.Expr], frozenset[str]] = dict(_read(QUERIES)) | dict(_read(EXPRESSIONS))


def check(tree: exp.Expr, source: str) -> None:
    """Refuse whatever of a query is not understood.

    >>> from anabranch.cql.dialect import parse_query
    >>> check(parse_query("Select k From s1 Order By k"), "Select k From s1 Order By k")
    Traceback (most recent call last):
        ...
    anabranch.cql.problems.CQLError: Order By is not supported at line 1, column 27
      Select k From s1 Order By k
                                ^
      hint: a relation has no order; sort the answer where it is used
    """
    for node in tree.walk(prune=lambda each: isinstance(each, exp.Hint)):
        if isinstance(node, exp.Hint):
            if not is_leading(node):
                raise _refusal("Select.hint", node, node.parent or node, source)
            continue
        parts = UNDERSTOOD.get(type(node))
        misplaced = node is not tree and not isinstance(node.parent, PARENTS.get(type(node), exp.Expr))
        if parts is None or misplaced:
            raise _refusal(type(node).__name__, node, node, source)
        for key, value in node.args.items():
            if value and key not in parts:
                raise _refusal(f"{type(node).__name__}.{key}", value, node, source)
        if isinstance(node, exp.DataType):
            _check_type(node, source)


def _check_type(node: exp.DataType, source: str) -> None:
    known = isinstance(node.this, exp.Expr) or node.this in TYPES  # an interval is a node
    if not known or (node.expressions and node.this not in OF_PARTS):
        what = f"the type {node.sql()} is not supported"
        raise problem(what, node.parent or node, source, "use one of Spark's types, as in Cast(a As Timestamp)")


def _refusal(key: str, value: object, node: exp.Expr, source: str) -> CQLError:
    parts = [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, exp.Expr)]
    name, hint = NAMES.get(key) or (NAMES.get(type(parts[0]).__name__) if parts else None) or (_words(key), COMPUTE)
    at = parts[0] if parts else node
    if isinstance(at, exp.Hint) and isinstance(node, exp.Select):
        at = node.expressions[0]  # nodes in a hint count from the hint's own beginning
    while span(at) == (None, None) and at.parent is not None:
        at = at.parent
    return problem(f"{name} is not supported", at, source, hint)


def _words(key: str) -> str:
    """The name of a node or of one of its parts, as words.

    >>> _words("MatchRecognize"), _words("Join.match_condition")
    ('Match Recognize', 'Join with Match Condition')
    """
    node, _, part = key.partition(".")
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", node)
    return f"{words} with {part.strip('_').replace('_', ' ').title()}" if part else words
