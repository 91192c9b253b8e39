"""Rules: many queries that differ in values alone, as rows of a relation.

A template is one query with parameters; each rule gives them values. The rules are a relation that changes
(`relations.py`), the query joins the stream with it (`cql/templates.py`), and its answers carry the key of the rule.
Rules come and go while the query runs, at an instant like every change of a relation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, StructField, StructType
from sqlglot import exp

from anabranch.cql.templates import compared_with, parameters
from anabranch.engine.query import ContinuousQuery
from anabranch.errors import AnabranchError, QueryError, suggest
from anabranch.model.names import quoted
from anabranch.spark.schemas import empty_frame

if TYPE_CHECKING:
    from anabranch.engine.engine import Engine

MOST_SHOWN = 3
_COUNT = "_count"


class RulesRefused(QueryError):
    """Some rules cannot be taken; the others are in.

    Parameters
    ----------
    refused
        Why, by the key of each.
    added
        How many others have been added.
    """

    def __init__(self, refused: Mapping[object, str], added: int) -> None:
        some = "; ".join(f"{key!r}: {why}" for key, why in list(refused.items())[:MOST_SHOWN])
        more = " ..." if len(refused) > MOST_SHOWN else ""
        super().__init__(
            f"{len(refused)} of {len(refused) + added} rules are refused: {some}{more}",
            hint=f"the other {added} are in; correct these and add them again",
        )
        self.refused, self.added = dict(refused), added


class Rules:
    """The rules of a template, as their user holds them; see `Engine.rules`.

    Parameters
    ----------
    engine
        In which they run.
    query
        The one query that they are.
    relation
        The name of the relation that holds them.
    key
        The column that tells them apart.
    """

    def __init__(self, engine: Engine, query: ContinuousQuery, relation: str, key: str) -> None:
        self._engine = engine
        self.query = query
        self.relation = relation
        self.key = key

    @property
    def name(self) -> str:
        """Its name, which is that of the query."""
        return self.query.name

    def add(self, **values: Any) -> None:
        """Add a rule: its key, and a value for each parameter. It counts from the next instant on."""
        try:
            self.add_all([values])
        except RulesRefused as error:
            (key, why), *_ = error.refused.items()
            raise QueryError(f"rule {key!r} is refused: {why}", hint=self._columns()) from None

    def add_all(self, rules: DataFrame | Iterable[Mapping[str, Any]], *, at: datetime | None = None) -> int:
        """Add rules: a DataFrame, or dicts, with a column for the key and for each parameter. Returns how many.

        Raises
        ------
        RulesRefused
            If values of some do not fit, or their keys are taken: the others are in, then.
        """
        fitting, refused = self._of_frame(rules) if isinstance(rules, DataFrame) else self._of_dicts(list(rules))
        added = self._engine.insert(self.relation, fitting, at=at)
        if refused:
            raise RulesRefused(refused, added)
        return added

    def remove(self, *keys: object, at: datetime | None = None) -> int:
        """Remove rules by their keys; returns how many there were."""
        return self._engine.delete(self.relation, F.col(quoted(self.key)).isin(*keys), at=at)

    def count(self) -> int:
        """How many there are."""
        return self._contents().count()

    def to_dataframe(self) -> DataFrame:
        """The rules that there are."""
        return self._contents()

    def start(self, sink: object = "memory", **options: Any) -> Rules:
        """Run, as `ContinuousQuery.start` does."""
        self.query.start(sink, **options)
        return self

    def __getitem__(self, key: object) -> Rule:
        """One rule."""
        return Rule(self, key)

    def __repr__(self) -> str:
        return f"<rules {self.name}: {self.query.status}>"

    def _contents(self) -> DataFrame:
        return self._engine.contents(self.relation)

    def _columns(self) -> str:
        fields = self._engine.schema_of(self.relation)
        return f"a rule has {', '.join(f'{each.name} ({each.dataType.simpleString()})' for each in fields)}"

    def _of_dicts(self, rules: Sequence[Mapping[str, Any]]) -> tuple[list[tuple[Any, ...]], dict[object, str]]:
        schema = self._engine.schema_of(self.relation)
        wanted = [each.get(self.key) for each in rules]
        taken = {row[0] for row in self._taken(wanted).collect()} if wanted else set()
        fitting: list[tuple[Any, ...]] = []
        refused: dict[object, str] = {}
        for rule in rules:
            key = rule.get(self.key)
            why = _misfit(rule, schema) or (f"there is a rule {key!r} already" if key in taken else None)
            if why is not None:
                refused[key] = why
                continue
            taken.add(key)
            fitting.append(tuple(_fitted(rule[each.name], each.dataType) for each in schema))
        return fitting, refused

    def _of_frame(self, rules: DataFrame) -> tuple[DataFrame, dict[object, str]]:
        schema = self._engine.schema_of(self.relation)
        _require_columns(rules.columns, schema)
        columns = [F.col(quoted(each.name)).try_cast(each.dataType).alias(each.name) for each in schema]
        lost = " OR ".join(
            f"try_cast({quoted(each.name)} AS {each.dataType.simpleString()}) IS NULL" for each in schema
        )
        key = quoted(self.key)
        again = rules.groupBy(key).agg(F.count("*").alias(_COUNT)).where(f"{_COUNT} > 1").select(key)
        held = self._contents().select(key)
        refused = {row[0]: "a value does not fit its column" for row in rules.where(lost).select(key).collect()}
        refused |= {row[0]: "the key is given twice" for row in again.collect()}
        refused |= {row[0]: f"there is a rule {row[0]!r} already" for row in rules.join(held, self.key).collect()}
        if refused:
            fits = ~F.col(key).isin(*(each for each in refused if each is not None)) & F.col(key).isNotNull()
            rules = rules.where(fits)
        return rules.select(*columns), refused

    def _taken(self, keys: Sequence[object]) -> DataFrame:
        column = quoted(self.key)
        return self._contents().select(column).where(F.col(column).isin(*(each for each in keys if each is not None)))


class Rule:
    """One rule, whose answer is read from the engine's files, without Spark."""

    def __init__(self, rules: Rules, key: object) -> None:
        self._rules = rules
        self.key = key

    def current(self, window: str | timedelta | None = None) -> pa.Table:
        """What holds now; of a stream of answers those of the last `window`, up to the last answered time."""
        return self._rules._engine.reader().rules(self._rules.name)[self.key].current(window)


def rule_columns(
    spark: SparkSession, template: exp.Query, key: str, sources: Sequence[StructType], given: Mapping[str, str]
) -> StructType:
    """The columns of a rule: its key, a text unless said otherwise, and its parameters.

    A parameter has the type of what it is compared with, unless its type is given.
    """
    names = (key, *parameters(template))
    for name in given:
        if name not in names:
            raise QueryError(f"types has {name!r}, which is not a parameter", hint=suggest(name, names, "parameters"))
    kinds: dict[str, DataType] = {key: StringType()}
    kinds |= {name: DataType.fromDDL(kind) for name, kind in given.items()}
    for name in parameters(template):
        if name not in kinds:
            kinds[name] = _compared_type(spark, template, name, sources)
    return StructType([StructField(name, kinds[name]) for name in dict.fromkeys(names)])


def _compared_type(spark: SparkSession, template: exp.Query, name: str, sources: Sequence[StructType]) -> DataType:
    other = compared_with(template, name)
    if other is not None:
        bare = other.copy()
        for column in bare.find_all(exp.Column):
            column.set("table", None)
        fields = {field.name.lower(): field for schema in sources for field in schema}
        try:
            frame = empty_frame(spark, StructType(list(fields.values())))
            return frame.selectExpr(bare.sql(dialect="spark")).schema[0].dataType
        except PySparkException:
            pass
    raise QueryError(
        f"the type of parameter ':{name}' is not known: it is compared with nothing that has one",
        hint=f"give it, as in types={{{name!r}: 'double'}}",
    )


def _require_columns(names: Collection[str], schema: StructType) -> None:
    for name in schema.names:
        if name not in names:
            raise QueryError(f"the rules have no column {name!r}", hint=suggest(name, list(names), "columns"))


def _misfit(rule: Mapping[str, Any], schema: StructType) -> str | None:
    """Why a rule cannot be taken."""
    for name in rule:
        if name not in schema.names:
            return f"{name!r} is not a parameter"
    for each in schema:
        if rule.get(each.name) is None:
            return f"it has no {each.name!r}"
        try:
            _verified(_fitted(rule[each.name], each.dataType), each)
        except (PySparkException, ValueError, TypeError, AnabranchError):
            return f"{each.name} is {rule[each.name]!r}, not {each.dataType.simpleString()}"
    return None


def _fitted(value: Any, kind: DataType) -> Any:
    """Whole numbers do for fractions."""
    return float(value) if kind.typeName() in ("double", "float") and type(value) is int else value


def _verified(value: Any, field: StructField) -> None:
    from pyspark.sql.types import _make_type_verifier

    _make_type_verifier(field.dataType, nullable=False, name=field.name)(value)
