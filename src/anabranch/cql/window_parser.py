"""The parser of Spark's SQL, extended by windows and by Istream, Dstream and Rstream.

A window is kept as `node.meta["window"]` of a table or a subquery, a relation-to-stream operator as
`node.meta["to_stream"]` of a select or a set operation.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar, NoReturn

from sqlglot import exp
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from anabranch.cql.function_parser import FunctionParser
from anabranch.cql.problems import MISSING, PlacedParseError, at_token
from anabranch.logical_plan import WindowSpec
from anabranch.model.names import without_number
from anabranch.model.time_units import MOST, UNITS, in_words, microseconds, unit_of, varies

STREAMS = ("ISTREAM", "DSTREAM", "RSTREAM")
WINDOWS = "the windows are [Rows N], [Range T], [Now], [Partition By a, b Rows N], each but [Now] also with Slide"
ALL_ROWS = "for all rows leave the window out, or write [Rows Unbounded]"
QUERY_STARTS = (TokenType.SELECT, TokenType.WITH)


class WindowParser(FunctionParser):
    """Parses queries; declarations are left to its subclass."""

    QUERY_MODIFIER_TOKENS: ClassVar[set[TokenType]] = Parser.QUERY_MODIFIER_TOKENS - {TokenType.WINDOW}
    # or `Group By window(ts, '5 seconds')` would end before it

    def raise_error(self, message: str, token: Token | None = None) -> None:
        """Report a parse error with the tokens around it."""
        incomplete = message.startswith("Required keyword") and self._prev  # found behind it: that may be the end
        at = token or self._curr or incomplete or None
        before = self._tokens[self._index - 1] if 0 < self._index <= self._tokens_size else None
        raise PlacedParseError(message, at, None if before is at else before, self._tokens[0] if self._tokens else None)

    def fail(self, what: str, token: Token | None = None, hint: str | None = None) -> NoReturn:
        """Stop with an error that no attempt at another reading may swallow."""
        raise at_token(what, self.sql, token or self._curr or None, self._prev, hint)

    def fail_here(self, what: str, hint: str) -> NoReturn:
        """Stop at a word that does not fit, or where the text ends."""
        self.fail(f"{what} {self._curr.text!r}" if self._curr else MISSING, hint=hint)

    def _parse_pipe_syntax_query(self, query: exp.Query) -> NoReturn:
        self.fail("|> is not supported", hint="write clauses in the order of SQL: Select ... From ... Where ...")

    def _parse_table_parts(
        self, schema: bool = False, is_db_reference: bool = False, wildcard: bool = False, fast: bool = False
    ) -> exp.Table | exp.Dot | None:
        table = super()._parse_table_parts(schema, is_db_reference, wildcard, fast)
        if table is not None and not fast and not schema:
            self._attach_window(table)
        return table

    def _parse_table(
        self,
        schema: bool = False,
        joins: bool = False,
        alias_tokens: Collection[TokenType] | None = None,
        parse_bracket: bool = False,
        is_db_reference: bool = False,
        parse_partition: bool = False,
        consume_pipe: bool = False,
    ) -> exp.Expr | None:
        table = super()._parse_table(
            schema, False, alias_tokens, parse_bracket, is_db_reference, parse_partition, consume_pipe
        )
        if table is not None:
            self._attach_window(table)
            for join in self._parse_joins(alias_tokens=alias_tokens) if joins else ():
                table.append("joins", join)
        return table

    def _parse_subquery(self, this: exp.Expr | None, parse_alias: bool = True) -> exp.Subquery | None:
        start = self._curr
        window = self._parse_stream_window() if this is not None and parse_alias else None
        subquery = super()._parse_subquery(this, parse_alias)
        if subquery is not None and window is not None:
            subquery.meta.update(window=window, window_at=(start.start, self._prev.end))
        return subquery

    def _attach_window(self, node: exp.Expr) -> None:
        start = self._curr
        window = self._parse_stream_window()
        if window is None:
            return
        if "window" in node.meta or self._curr.token_type == TokenType.L_BRACKET:
            self.fail("a second window", start, "a stream has one window, in front of its alias or behind")
        node.meta.update(window=window, window_at=(start.start, self._prev.end))

    def _parse_stream_window(self) -> WindowSpec | None:
        """Whatever stands in brackets here; None if no bracket opens."""
        if not self._match(TokenType.L_BRACKET):
            return None
        start = self._curr
        parts: dict[str, Any] = {}
        if self._match_text_seq("NOW"):
            parts["span"] = 0
        elif self._match(TokenType.PARTITION_BY) or self._match_text_seq("PARTITION", "BY"):
            parts["partition"] = self._parse_partition_columns()
        if self._match_text_seq("ROWS"):
            parts["rows"] = self._parse_rows("Rows")
        if "span" not in parts and self._match_text_seq("RANGE"):
            parts["span"] = None if self._match_text_seq("UNBOUNDED") else self.parse_duration("Range")
        elif not parts.keys() & {"span", "rows"}:
            self.fail(f"unknown window {start.text!r}" if start else MISSING, start, WINDOWS)
        if self._match_text_seq("SLIDE"):
            parts.update(self._parse_slide(of_rows=parts.get("rows") is not None))
        if not self._match(TokenType.R_BRACKET):
            self.fail(f"unexpected {self._curr.text!r} in the window" if self._curr else MISSING, hint=WINDOWS)
        return WindowSpec(**parts)

    def _parse_partition_columns(self) -> tuple[str, ...]:
        names = []
        while True:
            column = self._parse_id_var(any_token=False)
            if column is None:
                self.fail("Partition By needs names of columns", hint="as in [Partition By cid Rows 1]")
            if self._match(TokenType.DOT):
                column = self._parse_id_var() or column
            names.append(column.name)
            if not self._match(TokenType.COMMA):
                return tuple(names)

    def _parse_rows(self, keyword: str) -> int | None:
        """A number of rows; None for Unbounded."""
        if keyword == "Rows" and self._match_text_seq("UNBOUNDED"):
            return None
        start = self._curr
        negative = self._match(TokenType.DASH)
        text = self._prev.text if self._match(TokenType.NUMBER) else ""
        if negative or not text.isdigit() or int(text) < 1:
            self.fail(f"{keyword} needs a whole number above zero", start, f"as in [{keyword} 100]")
        if int(text) > MOST:
            self.fail(f"{keyword} has too large a number", start, ALL_ROWS if keyword == "Rows" else None)
        return int(text)

    def _parse_slide(self, of_rows: bool) -> dict[str, int]:
        if of_rows and self._next.token_type == TokenType.R_BRACKET:
            rows = self._parse_rows("Slide")
            assert rows is not None
            return {"slide_rows": rows}
        start = self._curr
        slide = self.parse_duration("Slide")
        if slide < 1:
            self.fail("Slide needs a time above zero", start, "as in [Range 10 Minutes Slide 1 Minute]")
        return {"slide": slide}

    def parse_duration(self, keyword: str) -> int:
        """A number and a unit of time, in microseconds."""
        start, example = self._curr, f"as in {keyword} 10 Minutes"
        negative = self._match(TokenType.DASH)
        if negative or not self._match(TokenType.NUMBER):
            self.fail(f"{keyword} needs a time that is not negative", start, example)
        number, unit = self._prev.text, self._curr
        if unit.token_type in (TokenType.R_BRACKET, TokenType.R_PAREN, TokenType.SENTINEL):
            self.fail(f"{keyword} needs a unit of time", start, f"{example}; the units are {', '.join(UNITS)}")
        if varies(unit.text):
            hint = f"write it in days, as in {keyword} 30 Days"
            self.fail(f"{keyword} in {unit.text} has no fixed length", unit, hint)
        if unit_of(unit.text) is None:
            self.fail(f"{keyword} has an unknown unit {unit.text!r}", unit, f"the units are {', '.join(UNITS)}")
        self._advance()
        duration = microseconds(number, unit.text)
        if duration is None:
            self.fail(f"{keyword} is not a whole number of microseconds", start, example)
        if duration > MOST:
            self.fail(f"{keyword} is longer than 36,000 years", start, ALL_ROWS if keyword == "Range" else example)
        return duration

    def _parse_statement(self) -> exp.Expr | None:
        if not self._at_stream_of_query():
            return super()._parse_statement()
        query = self._parse_set_operations(self._parse_stream_of_query())
        modified: exp.Expr | None = self._parse_query_modifiers(query)
        return modified

    def _parse_select_query(
        self,
        nested: bool = False,
        table: bool = False,
        parse_subquery_alias: bool = True,
        parse_set_operation: bool = True,
    ) -> exp.Expr | None:
        if not self._at_stream_of_query():
            return super()._parse_select_query(nested, table, parse_subquery_alias, parse_set_operation)
        query = self._parse_stream_of_query()
        if table:
            return self._parse_subquery(query, parse_alias=parse_subquery_alias)
        return self._parse_set_operations(query) if parse_set_operation else query

    def _at_stream_of_query(self) -> bool:
        """Whether the first word in the parentheses begins a query; a sum may begin with parentheses, too."""
        inside = (token.token_type for token in self._tokens[self._index + 2 :])
        first = next((kind for kind in inside if kind != TokenType.L_PAREN), None)
        return self._at_stream_operator() and first in QUERY_STARTS

    def _begins_query(self, place: int) -> bool:
        return any(token.token_type in QUERY_STARTS for token in self._tokens[place : place + 1])

    def _at_stream_operator(self) -> bool:
        return self._next.token_type == TokenType.L_PAREN and self._match_texts(STREAMS, advance=False)

    def _parse_stream_of_query(self) -> exp.Expr:
        """`Istream(Select ...)`: the operator around a whole query."""
        token = self._curr
        self._advance(2)
        query = self._parse_statement()
        while isinstance(query, exp.Subquery) and query.is_wrapper:
            query = query.this
        if not isinstance(query, exp.Query):
            self.fail(f"{token.text} needs a query or a list of columns", token)
        self._match_r_paren()
        if "to_stream" in query.meta:
            self.fail(f"{token.text} around a query that is a stream already", token, "write one of the two")
        query.meta["to_stream"] = token.text.lower()
        return query

    def _parse_projections(self) -> tuple[list[exp.Expr], list[exp.Expr] | None]:
        if not self._at_stream_operator() or self._begins_query(self._index + 2):
            return super()._parse_projections()  # a list may begin with a query in parentheses, which is a value
        token = self._curr
        self._advance(2)
        distinct = self._match(TokenType.DISTINCT)
        items, _ = super()._parse_projections()
        self._match_r_paren()
        if self._curr and self._curr.token_type in (TokenType.COMMA, TokenType.ALIAS):
            self.fail(
                f"{token.text} must enclose the whole list of columns",
                hint=f"as in Select {token.text}(a, b As x) From ...",
            )
        marker = exp.Tuple(expressions=items)
        marker.meta.update(to_stream=token.text.lower(), distinct=distinct)
        return [marker], None

    def _parse_query_modifiers(self, this: Any) -> Any:
        if isinstance(this, exp.Select) and this.expressions and "to_stream" in this.expressions[0].meta:
            marker = this.expressions[0]
            this.meta["to_stream"] = marker.meta["to_stream"]
            this.set("expressions", marker.expressions)
            if marker.meta["distinct"]:
                this.set("distinct", exp.Distinct())
        return super()._parse_query_modifiers(this)


def in_cql(window: WindowSpec) -> str:
    """A window as it is written: what the parser reads.

    >>> in_cql(WindowSpec(span=600_000_000, slide=60_000_000)), in_cql(WindowSpec(rows=5, partition=("dst_1",)))
    ('[Range 10 Minutes Slide 1 Minute]', '[Partition By dst Rows 5]')
    """
    by = f"Partition By {', '.join(map(without_number, window.partition))}" if window.partition else ""
    rows = "Rows Unbounded" if window.unbounded else f"Rows {window.rows}" if window.rows is not None else ""
    span = "Now" if window.span == 0 else f"Range {in_words(window.span).title()}" if window.span else ""
    slide = f"Slide {in_words(window.slide).title()}" if window.slide else ""
    steps = f"Slide {window.slide_rows}" if window.slide_rows else ""
    return f"[{' '.join(filter(None, (by, rows, span, slide, steps)))}]"
