"""Every function of Spark's is a scalar of its row, an aggregate that there is, or refused in clear words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from anabranch.cql import Catalog, CQLError, bind
from anabranch.cql.functions import CHANCE, JAVA, OF_TIME, OTHER_AGGREGATES, OVER_ROWS, SEVERAL_ROWS
from anabranch.operators.aggregate_functions import SQL_NAMES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
TRAITS = {
    "aggregate": ("aggregate.AggregateFunction", "RuntimeReplaceableAggregate"),
    "window": ("WindowFunction", "AggregateWindowFunction"),
    "generator": ("Generator",),
    "chance": ("Nondeterministic",),
}
OPERATORS = re.compile(r"\W+|and|or|not|div|mod|like|ilike|rlike|regexp|in|between|case|when|cast|is distinct from")
SYNTAXES = {"extract", "if", "overlay", "position"}  # one argument is too few
WORDS = re.compile(
    r"yields several rows|looks at other rows of a result|is not deterministic|can call anything|"
    r"\w+\(\) is not supported|the aggregate '\w+' is not supported|Any is not supported"
)


class Known(NamedTuple):
    """A function as Spark describes it."""

    name: str
    group: str
    kinds: set[str]
    examples: list[str]


@pytest.fixture(scope="module")
def functions(spark: SparkSession) -> list[Known]:
    jvm: Any = spark._jvm
    load = jvm.org.apache.spark.util.Utils.classForName
    traits = {kind: [load(f"{EXPRESSIONS}.{name}", True, False) for name in names] for kind, names in TRAITS.items()}
    registries = [spark._jsparkSession.sessionState().functionRegistry()]
    registries.append(spark._jsparkSession.sessionState().tableFunctionRegistry())
    found = {}
    for registry in registries:
        names = registry.listFunction().iterator()
        while names.hasNext():
            info = registry.lookupFunction(names.next()).get()
            if not info.getClassName().startswith("org.apache.spark.sql.catalyst"):
                continue  # the user's, from some other test
            own = load(info.getClassName(), True, False)
            kinds = {kind for kind, bases in traits.items() if any(base.isAssignableFrom(own) for base in bases)}
            examples = re.findall(r"> (SELECT .*?);\n", info.getExamples(), re.DOTALL)
            table = registry is registries[1]
            found[info.getName()] = Known(
                info.getName(), "generator_funcs" if table else info.getGroup(), kinds, examples
            )
    return list(found.values())


def refused(call: str) -> str | None:
    try:
        bind(f"Select {call} As x From s", Catalog(streams={"s": ("a", "b")}), "q")
    except CQLError as error:
        return str(error)
    return None


def test_every_function_that_is_no_scalar_is_refused_or_aggregates(functions: list[Known]) -> None:
    assert len(functions) > 400
    for each in functions:
        if OPERATORS.fullmatch(each.name):
            continue
        refusal = refused(f"{each.name}(a)")
        rows = each.group in ("agg_funcs", "window_funcs", "generator_funcs") or each.kinds
        if each.name in SQL_NAMES:
            assert rows, each
            assert refusal is None or "a quantile needs one number" in refusal
        elif rows:
            assert refusal, f"{each} is taken for a scalar"
            assert WORDS.search(refusal), (each, refusal)
        elif refusal is not None:
            assert each.name in CHANCE | JAVA | OF_TIME | SYNTAXES, (each, refusal)


def test_nothing_is_refused_that_spark_does_not_have(functions: list[Known], spark: SparkSession) -> None:
    names = {each.name for each in functions}
    listed = OTHER_AGGREGATES | OVER_ROWS | SEVERAL_ROWS | OF_TIME | JAVA | set(SQL_NAMES)
    if spark.version.startswith("4.3"):
        assert listed <= names
    aggregates = {each.name for each in functions if each.group == "agg_funcs" or "aggregate" in each.kinds}
    windows = {each.name for each in functions if each.group == "window_funcs"}
    assert aggregates - windows <= set(SQL_NAMES) | OTHER_AGGREGATES


@pytest.mark.full(reason="a minute: a thousand examples of Spark's own documentation, one by one")
def test_scalars_are_passed_on_to_spark_as_they_are(functions: list[Known], spark: SparkSession) -> None:
    catalog, compared = Catalog(streams={"s": ("of_no_example",)}), 0
    for each in functions:
        for example in each.examples:
            if re.search(r"\bFROM\b\s+(VALUES|range|\()|OVER|TIME'|nanos", example, re.IGNORECASE):
                continue
            try:
                plan = bind(f"{example} From s", catalog, "q").plan
            except CQLError:
                continue
            texts = [scalar.sql for _, scalar in getattr(plan.inputs[0], "items", ())]
            if f"SELECT {', '.join(texts)}" == example:
                continue
            assert answer(spark, f"SELECT {', '.join(texts)}") == answer(spark, example), example
            compared += 1
    assert compared > 100


def answer(spark: SparkSession, text: str) -> str:
    try:
        return str([tuple(row) for row in spark.sql(text).collect()])
    except Exception as error:
        return type(error).__name__
