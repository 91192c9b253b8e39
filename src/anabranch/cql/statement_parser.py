"""The parser of declarations: Create, Insert, Delete, Drop, Pause, Resume, Show, Explain.

A declaration is a `Command` node that carries the statement as `meta["statement"]`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from anabranch.cql.statements import (
    Columns,
    CreateQuery,
    CreateRelation,
    CreateStream,
    CreateView,
    DeleteStatement,
    DropStatement,
    Explain,
    InsertStatement,
    Options,
    Pause,
    RelationFromStream,
    Resume,
    SelectStatement,
    Show,
    SinkClause,
    Statement,
)
from anabranch.cql.window_parser import WindowParser
from anabranch.formats import DESCRIBES_ITSELF, REPLAY
from anabranch.model.stream_times import ARRIVAL, Arrival

KINDS = ("STREAM", "RELATION", "QUERY", "VIEW")
LISTS = ("QUERIES", "STREAMS", "RELATIONS", "VIEWS", "SHARING", "MEMORY", "ADVICE")
STATEMENTS = "the statements are Select, Create, Insert, Delete, Drop, Pause, Resume, Show and Explain"


class StatementParser(WindowParser):
    """Parses queries and declarations."""

    def _parse_statement(self) -> exp.Expr | None:
        declarations: dict[str, Callable[[], Statement]] = {
            "CREATE": self._parse_cql_create,
            "INSERT": self._parse_cql_insert,
            "DELETE": self._parse_cql_delete,
            "DROP": self._parse_cql_drop,
            "PAUSE": lambda: Pause(self._name("Pause")),
            "RESUME": lambda: Resume(self._name("Resume")),
            "SHOW": self._parse_cql_show,
            "EXPLAIN": self._parse_cql_explain,
        }
        if not self._curr or self._index > 0 or not self._match_texts(declarations):
            outermost = self._index == 0
            query = super()._parse_statement()
            return self._only_query(query) if outermost else query
        node = exp.Command(this=self._prev.text.upper())
        node.meta["statement"] = declarations[self._prev.text.upper()]()
        return node

    def _only_query(self, node: exp.Expr | None) -> exp.Expr | None:
        if node is None or isinstance(node, exp.Semicolon) or self._index < self._tokens_size:
            return node
        if not isinstance(node, exp.Query):
            self.fail(f"{self._tokens[0].text!r} does not begin a statement", self._tokens[0], STATEMENTS)
        node.meta["text_at"] = (self._tokens[0].start, self._prev.end)
        return node

    def _parse_cql_create(self) -> Statement:
        if not self._match_texts(KINDS):
            self.fail_here("cannot create", "Create Stream, Relation, Query or View")
        kind = self._prev.text.title()
        name = self._name(f"Create {kind}")
        if kind == "Stream":
            return self._parse_create_stream(name)
        if kind == "Relation" and self._match_text_seq("FROM", "STREAM"):
            return RelationFromStream(name, self._name("From Stream"), self._parse_key())
        if kind == "Relation":
            return CreateRelation(name, *self._parse_input())
        if kind == "View":
            return CreateView(name, *self._parse_body())
        rules = self._parse_for_each() if self._match_text_seq("FOR") else None
        history = self._match_text_seq("FROM", "HISTORY")
        sink = SinkClause(*self._parse_source("Into")) if self._match_texts(("INTO",), advance=False) else None
        options = {} if rules else self._parse_query_options()
        body = self._parse_body()
        return CreateQuery(name, *body, history, sink, rules, options.get("constraints", "off"), options.get("memory"))

    def _parse_query_options(self) -> dict[str, str]:
        """`With (constraints = 'exact', memory = '200 MB')`, if it is here."""
        start = self._curr
        options = {name.lower(): value for name, value in self._parse_with_options()}
        unknown = next((name for name in options if name not in ("constraints", "memory")), None)
        if unknown is not None:
            self.fail(f"a query has no option {unknown!r}", start, "as in With (constraints = 'exact')")
        return options

    def _parse_for_each(self) -> tuple[str, str]:
        """The key of rules, and the relation that holds them."""
        hint = "as in Create Query alerts For Each rule In limits As Select ..."
        if not self._match_text_seq("EACH"):
            self.fail_here("Each is expected", hint)
        key = self._name("For Each")
        if not self._match_text_seq("IN"):
            self.fail_here("In and a relation are expected", hint)
        return key, self._name("In")

    def _parse_key(self) -> tuple[str, ...]:
        if not self._match_texts(("KEY",)) or self._curr.token_type != TokenType.L_PAREN:
            self.fail_here("Key and columns in parentheses are expected", "as in From Stream ticks Key (symbol)")
        return self._parse_names()

    def _parse_names(self) -> tuple[str, ...]:
        """Names in parentheses, if there are some here."""
        if not self._match(TokenType.L_PAREN):
            return ()
        names = [self._name("a column")]
        while self._match(TokenType.COMMA):
            names.append(self._name("a column"))
        self._match_r_paren()
        return tuple(names)

    def _parse_cql_insert(self) -> InsertStatement:
        self._match_texts(("INTO",))
        name = self._name("Insert Into")
        columns = self._parse_names()
        if not self._match_texts(("VALUES",)):
            self.fail_here("Values are expected", "as in Insert Into limits Values ('s1', 4.0), ('s2', 5.0)")
        rows = [self._parse_values_row(columns)]
        while self._match(TokenType.COMMA):
            rows.append(self._parse_values_row(columns or rows[0]))
        return InsertStatement(name, columns, tuple(rows))

    def _parse_values_row(self, like: tuple[str, ...]) -> tuple[str, ...]:
        start = self._curr
        if not self._match(TokenType.L_PAREN):
            self.fail_here("a row in parentheses is expected", "as in Values ('s1', 4.0), ('s2', 5.0)")
        values = [each.sql(dialect="spark") for each in self._parse_csv(self._parse_disjunction)]
        self._match_r_paren()
        if like and len(values) != len(like):
            self.fail(f"a row of {len(values)} values, where {len(like)} are expected", start)
        return tuple(values)

    def _parse_cql_delete(self) -> DeleteStatement:
        self._match_texts(("FROM",))
        name = self._name("Delete From")
        if not self._match(TokenType.WHERE):
            return DeleteStatement(name)
        condition = self._parse_disjunction()
        if condition is None:
            self.fail("Where needs a condition", hint="as in Delete From limits Where sensor = 's1'")
        return DeleteStatement(name, condition.sql(dialect="spark"))

    def _parse_create_stream(self, name: str) -> CreateStream:
        columns, kind, options = self._parse_input()
        clauses: dict[str, Any] = {}
        parsers: dict[str, tuple[str, Callable[[], Any]]] = {
            "TIMESTAMP": ("timestamp", self._parse_timestamp),
            "SEQUENCE": ("sequence", lambda: self._name("Sequence")),
            "SKEW": ("skew_us", self._parse_skew),
            "IDLE": ("idle_us", lambda: self.parse_duration("Idle")),
            "RETAIN": ("retain_us", lambda: self.parse_duration("Retain")),
            "KEY": ("key", self._parse_names),
        }
        while self._match_texts(parsers):
            word = self._prev
            key, parse = parsers[word.text.upper()]
            if key in clauses:
                self.fail(f"{word.text} is given twice", word)
            clauses[key] = parse()
        if self._match_texts(("KEEP",)):
            self.fail("a stream has no Keep", self._prev, "how long rows stay is Retain now, as in Retain 1 Hour")
        if "timestamp" not in clauses:
            self.fail(
                f"stream {name!r} has no timestamp",
                hint="add Timestamp and the name of its column of times, or Timestamp Arrival",
            )
        return CreateStream(name, columns, kind, options, **clauses)

    def _parse_timestamp(self) -> str | Arrival:
        """A column of times; the word Arrival, unless it is quoted, stands for none."""
        bare = self._curr and self._curr.token_type == TokenType.VAR
        return ARRIVAL if bare and self._match_texts(("ARRIVAL",)) else self._name("Timestamp")

    def _parse_skew(self) -> int | None:
        return None if self._match_texts(("AUTO",)) else self.parse_duration("Skew")

    def _parse_input(self) -> tuple[Columns, str, Options]:
        """Columns, format and options of what is read."""
        start, columns = self._curr, self._parse_columns()
        named = self._next
        kind, options = self._parse_source("From")
        if columns and kind.lower() in DESCRIBES_ITSELF:
            self.fail(f"{kind!r} has columns of its own", start, "leave the list of columns out")
        if kind.lower() == REPLAY and "path" not in (key.lower() for key, _ in options):
            self.fail(f"{kind!r} needs a path", named, f"as in From '{REPLAY}' With (path = 'in/', speed = 60)")
        return columns, kind, options

    def _parse_columns(self) -> Columns:
        if not self._match(TokenType.L_PAREN):
            return ()
        columns = []
        while True:
            name, token = self._name("a column"), self._curr
            kind = self._parse_types(schema=True)
            if kind is None:
                self.fail(f"column {name!r} has no type", token, "as in (k Long, ts Timestamp)")
            columns.append((name, kind.sql(dialect="spark")))
            if not self._match(TokenType.COMMA):
                break
        self._match_r_paren()
        return tuple(columns)

    def _parse_source(self, keyword: str) -> tuple[str, Options]:
        """A format and its options, behind From or Into."""
        if not self._match_text_seq(keyword.upper()) or not self._match(TokenType.STRING):
            self.fail(
                f"{keyword} and a format in quotes are expected", hint=f"as in {keyword} 'csv' With (path = '...')"
            )
        return self._prev.text, self._parse_with_options()

    def _parse_with_options(self) -> Options:
        if not self._match(TokenType.WITH):
            return ()
        if not self._match(TokenType.L_PAREN):
            self.fail("With needs options in parentheses", hint="as in With (path = '...', header = true)")
        options = []
        while not self._match(TokenType.R_PAREN):
            options.append(self._parse_option())
            if not self._match(TokenType.COMMA) and self._curr.token_type != TokenType.R_PAREN:
                self.fail("a comma or a closing parenthesis is expected", hint="With (path = '...', header = true)")
        return tuple(options)

    def _parse_option(self) -> tuple[str, str]:
        start = self._curr
        while self._curr and self._curr.token_type not in (TokenType.EQ, TokenType.COMMA, TokenType.R_PAREN):
            self._advance()
        key = "" if self._curr is start else self._option_key(start.start)
        if not key or not self._match(TokenType.EQ):
            self.fail("an option is a name, = and a value", start, "as in header = true")
        sign = "-" if self._match(TokenType.DASH) else ""
        if not self._curr or self._curr.token_type in (TokenType.COMMA, TokenType.R_PAREN):
            self.fail(f"option {key!r} has no value", hint="as in header = true")
        self._advance()
        return key, sign + self._prev.text

    def _option_key(self, start: int) -> str:
        """The text up to here without quotes: a name may have dots, as `kafka.bootstrap.servers` does."""
        return self.sql[start : self._prev.end + 1].strip("'\"`")

    def _parse_body(self) -> tuple[str, exp.Query]:
        """`As Select ...`: its text and its tree."""
        if not self._match(TokenType.ALIAS):
            self.fail("As and a query are expected", hint="Create Query name [From History] [Into ...] As Select ...")
        return self._parse_rest()

    def _parse_rest(self) -> tuple[str, exp.Query]:
        start = self._curr
        query = super()._parse_statement()
        if not isinstance(query, exp.Query):
            self.fail("a query is expected", start if start else None, "Select ... From ...")
        query.meta.update(source=self.sql, text_at=(start.start, self._prev.end))
        return self._find_sql(start, self._prev), query

    def _parse_cql_drop(self) -> DropStatement:
        if not self._match_texts(KINDS):
            self.fail_here("cannot drop", "Drop Stream, Relation, Query or View")
        kind: Any = self._prev.text.lower()
        return DropStatement(kind, self._name(f"Drop {kind.title()}"))

    def _parse_cql_show(self) -> Show:
        if not self._match_texts(LISTS):
            self.fail_here("cannot show", "Show Queries, Streams, Relations, Views, Sharing, Memory or Advice")
        kind: Any = self._prev.text.lower()
        if not self._match(TokenType.LIKE):
            return Show(kind)
        if kind == "advice" or not self._match(TokenType.STRING):
            self.fail_here("a pattern of names is expected", "Show Queries Like 'alert%'")
        return Show(kind, self._prev.text)

    def _parse_cql_explain(self) -> Explain | Show:
        if self._curr and self._curr.token_type is TokenType.VAR and not self._next and self._match_texts(("MEMORY",)):
            return Show("memory")
        if self._curr and not self._next:
            return Explain(self._name("Explain"))
        return Explain(SelectStatement(*self._parse_rest()))

    def _name(self, keyword: str) -> str:
        token = self._curr
        name = self._parse_id_var(any_token=False)
        if name is None:
            self.fail(f"{keyword} needs a name", token if token else None)
        return name.name
