"""The Catalyst executor: native predicates in a chosen order, as one AND-chain that Spark compiles and sources can use.

Spark evaluates `a AND b` from left to right and stops at the first false, inside generated code, but keeps the order in
which the user wrote the terms. Here a pilot sample decides: the sampled rows show which predicates drop which rows, and
each predicate is timed on them. The order never changes the answer, so a bad sample costs time only.

Notes
-----
The sampled rows become a local relation, over which Spark's optimizer evaluates a filter by itself, without a job; that
is what is timed. Interpreted evaluation overstates trivial comparisons and is right where it matters: regular
expressions, JSON, long texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType, VariantType

from anabranch.errors import QueryError, UnknownColumn
from anabranch.model.arrays import Floats, Mask
from anabranch.model.predicates import Kind, NativePredicate
from anabranch.routing.sampled_rows import JudgedSample
from anabranch.spark.connect import is_connect, plan_text
from anabranch.spark.learned.candidate_attributes import attribute
from anabranch.spark.names import column
from anabranch.spark.native import condition_text
from anabranch.spark.quiet_errors import quiet_errors

PILOT_ROWS = 500
PILOT_BYTES = 2**24
FIRST_ROWS = 8
OF_ANY_LENGTH = (StringType, BinaryType, ArrayType, MapType, StructType, VariantType)
TIMED_ROWS = 500
ROUND_SECONDS = 0.05
MOST_COPIES = 16
LEAST_SECONDS = 1e-4
COMPARISON_SECONDS = 1e-7

COMPARISONS = frozenset(
    """AttributeReference Literal Alias GetStructField And Or Not EqualTo EqualNullSafe GreaterThan GreaterThanOrEqual
    LessThan LessThanOrEqual Between With CommonExpressionRef CommonExpressionDef In InSet IsNull IsNotNull IsNaN
    Coalesce Length StartsWith EndsWith""".split()
)
ARITHMETIC = frozenset("Add Subtract Multiply Abs UnaryMinus".split())
DIVISIONS = frozenset("Divide Remainder Pmod IntegralDivide".split())
TRIVIAL = COMPARISONS | ARITHMETIC | DIVISIONS | {"Cast"}
CANNOT_FAIL = COMPARISONS | frozenset(
    """LikeAll LikeAny Contains Upper Lower InitCap Substring SubstringIndex Left Right StringTrim StringTrimLeft
    StringTrimRight StringLPad StringRPad StringRepeat Concat ConcatWs Reverse StringReplace StringTranslate StringInstr
    StringLocate FindInSet Levenshtein SoundEx Ascii Hex Base64 OctetLength BitLength IsValidUTF8 GetJsonObject CaseWhen
    If Nvl Nvl2 NullIf NullIfResult Greatest Least Size ArraySize ArrayContains ArraysOverlap ArrayExists ArrayForAll
    ArrayFilter LambdaFunction NamedLambdaVariable GetMapValue CreateArray CreateNamedStruct Get TryElementAt
    BitwiseAnd BitwiseOr BitwiseXor BitwiseNot BitwiseCount Sqrt Exp Pow Log Logarithm EulerNumber Murmur3Hash XxHash64
    Md5 Sha1 Sha2 Crc32 Year Quarter Month DayOfMonth DayOfWeek WeekDay LastDay DateDiff TruncDate TruncTimestamp Hour
    Minute Second""".split()
)
BY_PATTERN = frozenset("RLike Like ILike StringSplit RegExpCount RegExpInStr RegExpReplace RegExpExtract".split())
"""Cannot fail where the pattern, and what else there is besides the text, is written in the query."""
FIRST_PART = {"GetArrayItem": "0", "ElementAt": "1"}
"""How the first part of a split text is asked for."""
WIDE_PLANS = frozenset(
    "Join Aggregate Sort Window RepartitionByExpression Repartition Distinct Generate Except Intersect".split()
)


def inspect(df: DataFrame, predicate: NativePredicate) -> NativePredicate:
    """Analyze a native predicate against a DataFrame; wrong names and types get our own errors."""
    if isinstance(predicate.column, str):
        predicate = replace(predicate, column=F.expr(predicate.column))
    if is_connect(df):
        return _inspect_text(df, predicate)
    try:
        with quiet_errors():
            plan = df.where(predicate.column)._jdf.queryExecution().analyzed()
    except AnalysisException as error:
        raise _explained(error, predicate, df) from None
    hidden = False
    while plan.nodeName() != "Filter":  # Spark fetches what the DataFrame lacks, and takes it away again above
        plan, hidden = plan.children().head(), True
    condition = plan.condition()
    nodes = json.loads(condition.toJSON())
    names = {node["class"].rsplit(".", 1)[-1] for node in nodes}
    kind = predicate.kind if predicate.declared else _kind(df.sparkSession, condition, nodes)
    return replace(
        predicate,
        kind=kind,
        strict=predicate.strict or kind == "fallible",
        trivial=names <= TRIVIAL,
        has_python=any("PythonUDF" in name for name in names),
        hidden=hidden,
        columns=tuple(dict.fromkeys(n["name"] for n in nodes if n["class"].endswith(".AttributeReference"))),
        sql=condition.sql(),
    )


def _inspect_text(df: DataFrame, predicate: NativePredicate) -> NativePredicate:
    """On Spark Connect the plan is a text: what it does not tell for sure counts as able to fail."""
    try:
        with quiet_errors():
            text = plan_text(df.where(predicate.column), "Analyzed")
    except (AnalysisException, ParseException) as error:
        raise _explained(error, predicate, df) from None
    kinds = {field.name: field.dataType.simpleString() for field in df.schema.fields}
    ansi = df.sparkSession.conf.get("spark.sql.ansi.enabled") == "true"
    found = condition_text.read_condition(text.partition("\n")[2], kinds, ansi=ansi)
    kind = predicate.kind if predicate.declared else found.kind
    return replace(
        predicate,
        kind=kind,
        strict=predicate.strict or kind == "fallible",
        trivial=found.trivial,
        has_python=found.has_python,
        hidden=found.hidden,
        columns=found.columns,
    )


def _kind(spark: SparkSession, condition: Any, nodes: Sequence[dict[str, Any]]) -> Kind:
    if not condition.deterministic():
        return "volatile"
    return "pure" if _cannot_fail(spark, nodes) else "fallible"


def conjunction(df: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """Filter by an AND-chain in the given order; a plain `where`, so pushdown to sources works as ever."""
    return df.where(reduce(lambda chain, term: chain & term, columns)) if columns else df


def pilot(df: DataFrame, predicates: Sequence[NativePredicate], attributes: Sequence[str] = ()) -> JudgedSample | str:
    """Sample some rows and judge and time the predicates on them; or say why that is not worth it."""
    if len(predicates) < 2:
        return "one native predicate has one order"
    if all(p.trivial for p in predicates):
        return "all native predicates are trivial comparisons: nothing to gain"
    if any(p.has_python for p in predicates):
        return "a column expression holds a Python UDF: wrap the function in ab.predicate to have it ordered"
    if any(p.hidden for p in predicates):
        return "a native predicate reads what the DataFrame has no longer"
    wide = _wide_parts(df)
    if wide:
        return f"a sample would have to compute the input's {wide} first"
    try:
        return _try_out(df, predicates, attributes)
    except PySparkException as error:
        return f"the sample could not be judged ({error.getCondition() or type(error).__name__})"
    except pa.ArrowException as error:  # a local time, say, that the session's zone has twice
        return f"the sample could not be judged ({type(error).__name__})"


def _try_out(df: DataFrame, predicates: Sequence[NativePredicate], attributes: Sequence[str]) -> JudgedSample | str:
    needed = list(dict.fromkeys([*(c for p in predicates for c in p.columns), *attributes]))
    try:
        with quiet_errors():
            chosen = df.select(*(column(df, c).alias(c) for c in needed))
    except AnalysisException as error:
        if not (error.getCondition() or "").startswith("UNRESOLVED_COLUMN"):
            raise
        return "the sample would lack what Python predicates compute"
    sample = _some_rows(chosen)
    if not sample.num_rows:
        return "the sample is empty"
    local = df.sparkSession.createDataFrame(sample)
    terms = _terms(local, predicates)
    if terms is None:
        return "the predicates are bound to their DataFrame and cannot be tried on a sample"
    rows = local.select(*(t.alias(f"p{i}") for i, t in enumerate(guarded(predicates, terms)))).collect()
    drops = np.array([[value is not True for value in row] for row in rows], dtype=np.bool_)
    zone = str(df.sparkSession.conf.get("spark.sql.session.timeZone"))
    found = {name: attribute(sample.column(name).combine_chunks(), zone) for name in attributes}
    reached = ~np.logical_or.accumulate(drops, axis=1)
    alone = {i: reached[:, i - 1] for i in range(len(terms)) if _has_guards(predicates, i)}
    costs = _guessed(predicates) if is_connect(df) else _costs(local, sample, terms, alone)
    return JudgedSample(found, drops, costs)


def _guessed(predicates: Sequence[NativePredicate]) -> Floats:
    """Seconds per row where nothing can be timed: a comparison is quick, anything else takes ten times as long."""
    return np.array([COMPARISON_SECONDS if p.trivial else 10 * COMPARISON_SECONDS for p in predicates])


def _some_rows(chosen: DataFrame) -> pa.Table:
    """As many rows as a pilot wants, or fewer where they are long: the first ones tell how many fit."""
    if not any(isinstance(field.dataType, OF_ANY_LENGTH) for field in chosen.schema.fields):
        return chosen.limit(PILOT_ROWS).toArrow()
    first = chosen.limit(FIRST_ROWS).toArrow()
    fitting = PILOT_BYTES * first.num_rows // max(first.nbytes, 1)
    return first if fitting <= first.num_rows else chosen.limit(min(PILOT_ROWS, fitting)).toArrow()


def _costs(local: DataFrame, sample: pa.Table, terms: Sequence[Column], alone: Mapping[int, Mask]) -> Floats:
    """Seconds per row of every term; some are timed by themselves, on the rows of the sample that they may see."""
    spark, costs = local.sparkSession, np.full(len(terms), np.nan)
    together = [i for i in range(len(terms)) if i not in alone]
    costs[together] = time_terms(spark, sample, [terms[i] for i in together])
    for i, rows in alone.items():
        if rows.any():
            costs[i] = time_terms(spark, sample.filter(pa.array(rows)), [terms[i]])[0]
    return costs


def _has_guards(predicates: Sequence[NativePredicate], i: int) -> bool:
    return predicates[i].kind == "fallible" and i > 0


def guarded(predicates: Sequence[NativePredicate], terms: Sequence[Column]) -> list[Column]:
    """The terms, those that may fail only where the ones written before them hold; elsewhere they count as true."""
    safe = list(terms)
    for i in range(len(terms)):
        if _has_guards(predicates, i):
            safe[i] = F.when(reduce(lambda chain, term: chain & term, safe[:i]), terms[i]).otherwise(F.lit(True))
    return safe


def time_terms(spark: SparkSession, sample: pa.Table, terms: Sequence[Column]) -> Floats:
    """Seconds of processor time per row of every term; NaN where the optimizer would not evaluate it by itself.

    In a young JVM whatever comes first is slow, and a few rows of a quick term are lost in the optimizer's own time: a
    first round warms up and says how many rows the second can afford.
    """
    most = max(1, PILOT_BYTES // max(sample.nbytes, 1))
    few = min(max(1, TIMED_ROWS // sample.num_rows), most)
    first = _seconds_per_row(spark, sample, few, terms)
    affordable = ROUND_SECONDS / max(float(np.nansum(first)) * few * sample.num_rows, LEAST_SECONDS)
    copies = min(few * int(np.clip(affordable, 1, MOST_COPIES)), most)
    costs: Floats = np.fmin(first, _seconds_per_row(spark, sample, copies, terms))
    return costs


def _seconds_per_row(spark: SparkSession, sample: pa.Table, copies: int, terms: Sequence[Column]) -> Floats:
    local = spark.createDataFrame(pa.concat_tables([sample] * copies))
    idle = min(_optimize_seconds(local, F.lit(True)) for _ in range(2))
    spent: Floats = np.array([_optimize_seconds(local, term) - idle for term in terms])
    costs: Floats = np.maximum(spent, LEAST_SECONDS) / (copies * sample.num_rows)
    return costs


def _optimize_seconds(local: DataFrame, term: Column) -> float:
    """Processor time of the optimizer's thread, which a busy machine does not distort."""
    jvm = local.sparkSession._jvm
    assert jvm is not None
    clock = jvm.java.lang.management.ManagementFactory.getThreadMXBean()
    execution = local.where(term)._jdf.queryExecution()
    began = clock.getCurrentThreadCpuTime()
    plan = execution.optimizedPlan()
    spent = clock.getCurrentThreadCpuTime() - began
    return spent / 1e9 if plan.getClass().getSimpleName() == "LocalRelation" else float("nan")


def _terms(local: DataFrame, predicates: Sequence[NativePredicate]) -> list[Column] | None:
    """The predicates over the sample; those bound to their DataFrame are rebuilt from their SQL text."""
    terms = []
    for p in predicates:
        term = next((t for t in _versions(p) if _resolves(local, t)), None)
        if term is None:
            return None
        terms.append(term)
    return terms


def _versions(p: NativePredicate) -> Iterator[Column]:
    yield p.column
    if p.sql:
        with suppress(ParseException):  # not every expression's text can be parsed back
            yield F.expr(p.sql)


def _resolves(local: DataFrame, term: Column) -> bool:
    try:
        with quiet_errors():
            _ = local.where(term).schema
    except AnalysisException:
        return False
    return True


def _cannot_fail(spark: SparkSession, nodes: Sequence[dict[str, Any]]) -> bool:
    """Whether no node of an expression can raise, so that evaluating it on more rows is harmless."""
    ansi = spark.conf.get("spark.sql.ansi.enabled") == "true"
    return all(_node_cannot_fail(nodes, i, ansi) for i in range(len(nodes)))


def _node_cannot_fail(nodes: Sequence[dict[str, Any]], i: int, ansi: bool) -> bool:
    name = nodes[i]["class"].rsplit(".", 1)[-1]
    if name in CANNOT_FAIL or (not ansi and name in TRIVIAL):
        return True
    child = nodes[i + 1] if i + 1 < len(nodes) else {}
    if name == "Cast":
        source, target = child.get("dataType"), nodes[i].get("dataType")
        rounded = str(source).startswith("decimal") and target in ("double", "float")
        return target in ("string", "binary") or rounded or _widens(source, target)
    if name in BY_PATTERN:
        return _written(name, nodes, i)
    if child.get("class", "").endswith(".StringSplit") and _literal(nodes, i) == FIRST_PART.get(name, ""):
        return True  # a text has at least one part
    if name in DIVISIONS:
        return _divides_safely(name, nodes, i)
    if nodes[i].get("failOnError") is False:
        return name != "ElementAt" or _literal(nodes, i) not in (None, "0")  # there is no element 0, in any mode
    return name in ARITHMETIC and child.get("dataType") in ("double", "float")


def _written(name: str, nodes: Sequence[dict[str, Any]], i: int) -> bool:
    """Whether all operands behind the first are literals, and refer to no group that the pattern may lack."""
    behind = nodes[_skip(nodes, i + 1) : _skip(nodes, i)]
    if not all(node["class"].endswith(".Literal") for node in behind):
        return False
    pattern, *others = (str(node.get("value")) for node in behind)
    if name == "RegExpReplace":
        asked = re.findall(r"[$](.?)", others[0])
        return "\\" not in others[0] and all(each.isdigit() and int(each) <= _groups(pattern) for each in asked)
    return name != "RegExpExtract" or (others[0].isdigit() and int(others[0]) <= _groups(pattern))


def _groups(pattern: str) -> int:
    """How many groups a pattern has; none for one that only Java understands."""
    try:
        return re.compile(pattern).groups
    except re.error:
        return 0


def _divides_safely(name: str, nodes: Sequence[dict[str, Any]], i: int) -> bool:
    """Whether the divisor is a number other than zero, and the quotient is as large as the dividend at most."""
    divisor, decimal = _literal(nodes, i), str(nodes[i + 1].get("dataType")).startswith("decimal")
    if divisor is None or decimal or (name == "IntegralDivide" and divisor == "-1"):
        return False
    return float(divisor) != 0


def _literal(nodes: Sequence[dict[str, Any]], i: int) -> str | None:
    """The right operand, if it is a literal (maybe under a cast)."""
    at = _skip(nodes, i + 1)
    while at < len(nodes) and nodes[at]["class"].endswith(".Cast"):
        at += 1
    found = nodes[at].get("value") if nodes[at]["class"].endswith(".Literal") else None
    return None if found is None else str(found)


def _skip(nodes: Sequence[dict[str, Any]], i: int) -> int:
    """Index behind the subtree that starts at `i` (nodes are listed in pre-order)."""
    left = 1
    while left:
        left += int(nodes[i]["num-children"]) - 1
        i += 1
    return i


def _widens(source: Any, target: Any) -> bool:
    ladder = ["byte", "short", "integer", "long", "float", "double"]
    return source in ladder and target in ladder and ladder.index(source) <= ladder.index(target)


def _wide_parts(df: DataFrame) -> str:
    """Names of plan nodes below which a small sample is not cheap to take."""
    plan = plan_text(df, "Optimized") if is_connect(df) else df._jdf.queryExecution().optimizedPlan().toString()
    lines = re.sub(r"Repartition \d+, false", "Coalesce", plan).splitlines()  # which moves nothing
    heads = {re.sub(r"^[\s:+\-|~]*", "", line).split(" ", 1)[0].split("(")[0] for line in lines}
    return ", ".join(sorted(heads & WIDE_PLANS)).lower()


def _explained(error: AnalysisException, predicate: NativePredicate, df: DataFrame) -> QueryError:
    where = f"predicate {predicate.name!r}"
    parameters = error.getMessageParameters() or {}
    if (error.getCondition() or "").startswith("UNRESOLVED_COLUMN"):
        return UnknownColumn(parameters.get("objectName", "?").strip("`"), df.columns, where=where)
    said = next(line for line in str(error).splitlines() if line)  # of text that is no SQL, the first line is empty
    return QueryError(
        f"{where} is not a condition on this DataFrame: {said}",
        hint="it must be a boolean column expression",
    )
