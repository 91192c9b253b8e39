"""Which functions a continuous query may call."""

from __future__ import annotations

from difflib import get_close_matches

from sqlglot import exp

from anabranch.cql.context import Context
from anabranch.errors import suggest

CLOSE = 0.7
MOST_SUGGESTED = 3
CHANCE = {
    "rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle", "now", "getdate", "current_timestamp",
    "current_date", "curdate", "current_time", "current_datetime", "localtime", "localtimestamp",
    "monotonically_increasing_id", "spark_partition_id", "input_file_name", "input_file_block_start",
    "input_file_block_length", "user", "current_user", "session_user", "current_catalog", "current_database",
    "current_schema", "current_path", "current_timezone", "version",
}  # fmt: skip
JAVA = {"reflect", "java_method", "try_reflect"}
CHANCE_NODES = (
    exp.Rand,
    exp.Randn,
    exp.Uuid,
    exp.Shuffle,
    exp.CurrentTimestamp,
    exp.CurrentDate,
    exp.CurrentTime,
    exp.CurrentDatetime,
    exp.Localtimestamp,
)
SEVERAL_ROWS = {
    "explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack", "json_tuple",
    "variant_explode", "variant_explode_outer",
}  # fmt: skip
NAMED_AGGREGATES = {
    "mean", "std", "every", "some", "any", "try_sum", "try_avg", "histogram_numeric", "count_min_sketch",
    "bitmap_construct_agg", "hll_sketch_agg", "percentile_disc", "percentile_cont",
}  # fmt: skip


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is a call of an aggregate function."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in NAMED_AGGREGATES
    return isinstance(node, exp.AggFunc | exp.WithinGroup)


def written_name(node: exp.Expr, source: str) -> str:
    """A function's name as it stands in the text, in lower case."""
    if "start" in node.meta and not isinstance(node, exp.Anonymous):
        return source[node.meta["start"] : node.meta["end"] + 1].lower()
    if isinstance(node, exp.Anonymous) or not isinstance(node, exp.Func):
        return str(node.name or node.key).lower()
    return node.sql_name().lower()


def check_function(node: exp.Expr, context: Context) -> None:
    """Refuse functions that nobody knows, and those whose value is not given by their arguments."""
    if not isinstance(node, exp.Func):
        return
    name = written_name(node, context.source)
    own = context.catalog.function(name)
    if own is None and isinstance(node, exp.Anonymous) and not isinstance(node.parent, exp.Dot):
        _check_known(node, name, context)
    if own is None and name in SEVERAL_ROWS:
        raise context.error(f"{name}() yields several rows", node, "expand the column before it becomes a stream")
    if own is None and name in JAVA:
        raise context.error(f"{name}() can call anything", node, "register a function, as in engine.function(...)")
    if own is not None and not isinstance(node, exp.Anonymous):
        hint = "register it under another name"
        raise context.error(f"the function {name!r} of the user has the name of a built-in one", node, hint)
    if (own is None and (name in CHANCE or isinstance(node, CHANCE_NODES))) or (own and not own.deterministic):
        hint = "an answer depends on the timestamps of the rows alone; read the time from a column"
        raise context.error(f"{name}() is not deterministic", node, hint)


def _check_known(node: exp.Expr, name: str, context: Context) -> None:
    """Refuse a name that is none of the user's functions, nor of Spark's as far as these are known."""
    catalog = context.catalog
    known = None if catalog.builtins is None else [each.lower() for each in catalog.builtins()]
    if known is not None and name not in known:
        close = get_close_matches(name, [*known, *catalog.functions], n=MOST_SUGGESTED, cutoff=CLOSE)
        similar = suggest(name, close, "functions of a similar name") if close else None
        raise context.error(f"unknown function {name!r}", node, similar or "register it, as in engine.function(...)")
