"""Which functions a continuous query may call: those of the user's, and those of Spark's that are scalars of a row."""

from __future__ import annotations

from difflib import get_close_matches

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser

from anabranch.cql.scopes import Context
from anabranch.errors import suggest
from anabranch.operators.aggregate_functions import SQL_NAMES

CLOSE = 0.7
MOST_SUGGESTED = 3
OTHER_AGGREGATES = set(
    """any any_value approx_top_k approx_top_k_accumulate approx_top_k_combine array_agg bit_and bit_or bit_xor
    bitmap_and_agg bitmap_construct_agg bitmap_or_agg bool_and bool_or collect_list collect_set collect_union corr
    count_min_sketch covar_pop covar_samp every first first_value grouping grouping_id histogram_numeric hll_sketch_agg
    hll_union_agg kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint
    kll_sketch_agg_double kll_sketch_agg_float kurtosis last last_value listagg max_by measure median min_by mode
    percentile percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope
    regr_sxx regr_sxy regr_syy schema_of_variant_agg skewness some string_agg theta_intersection_agg theta_sketch_agg
    theta_union_agg try_avg try_sum tuple_intersection_agg_double tuple_intersection_agg_integer tuple_sketch_agg_double
    tuple_sketch_agg_integer tuple_union_agg_double tuple_union_agg_integer vector_avg vector_sum""".split()
)
SEVERAL_ROWS = set(
    """collations explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer python_worker_logs
    range sql_keywords stack variant_explode variant_explode_outer""".split()
)
OVER_ROWS = set(
    "counter_diff cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number".split()
)  # fmt: skip
OF_TIME = {"window", "session_window", "window_time"}
CHANCE = set(
    """curdate current_catalog current_database current_date current_datetime current_path current_role current_schema
    current_time current_timestamp current_timezone current_user getdate input_file_block_length input_file_block_start
    input_file_name localtime localtimestamp monotonically_increasing_id now rand randn random randstr session_user
    shuffle spark_partition_id uniform user uuid version""".split()
)
CLOCK_WITHOUT_ARGUMENT = {"unix_timestamp", "to_unix_timestamp"}
JAVA = {"reflect", "java_method", "try_reflect"}
REFUSED = (
    (SEVERAL_ROWS, "{}() yields several rows", "expand the column before it becomes a stream"),
    (OVER_ROWS, "{}() looks at other rows of a result", "use a window on the stream, as in s1 [Rows 10]"),
    (OF_TIME, "{}() is not supported", "use a window on the stream, as in s1 [Range 10 Minutes Slide 10 Minutes]"),
    (JAVA, "{}() can call anything", "register a function, as in engine.function(...)"),
    (
        CHANCE,
        "{}() is not deterministic",
        "an answer depends on the timestamps of the rows alone; read the time from a column",
    ),
)
"""Spark's functions that are not scalar functions of a row: names, what is wrong with them, what to do instead."""


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is a call of an aggregate function."""
    return isinstance(node, exp.Anonymous) and (node.name in SQL_NAMES or node.name in OTHER_AGGREGATES)


def check_function(node: exp.Expr, context: Context) -> None:
    """Refuse unknown functions, and those whose value does not depend on their arguments alone."""
    if not isinstance(node, exp.Anonymous):
        return
    name = node.name.lower()
    if isinstance(node.parent, exp.Dot) and node.arg_key == "expression":
        raise context.error(f"the function {name!r} has a name of several parts", node, "write its last part alone")
    own = context.catalog.function(name)
    if own is None:
        _check_known(node, name, context)
    elif name.upper() in SparkParser.FUNCTIONS or is_aggregate(node) or any(name in each for each, _, _ in REFUSED):
        hint = "register it under another name"
        raise context.error(f"the function {name!r} of the user has the name of a built-in one", node, hint)
    for names, what, hint in REFUSED:
        chance = names is CHANCE and (name in CLOCK_WITHOUT_ARGUMENT and not node.expressions)
        if own is None and (name in names or chance):
            raise context.error(what.format(name), node, hint)
    if own is not None and not own.deterministic:
        raise context.error(f"{name}() is not deterministic", node, REFUSED[-1][2])
    star = next((each for each in node.expressions if isinstance(each, exp.Star)), None)
    if star is not None and name != "count":
        raise context.error(f"{name}(*) is not supported", node, "list the columns")


def _check_known(node: exp.Expr, name: str, context: Context) -> None:
    """Refuse a name that is none of the user's functions, nor of Spark's as far as these are known."""
    catalog = context.catalog
    if catalog.builtins is None or name in SQL_NAMES:
        return
    known = [each.lower() for each in catalog.builtins()]
    if name not in known:
        close = get_close_matches(name, [*known, *catalog.functions], n=MOST_SUGGESTED, cutoff=CLOSE)
        similar = suggest(name, close, "functions of a similar name") if close else None
        raise context.error(f"unknown function {name!r}", node, similar or "register it, as in engine.function(...)")
