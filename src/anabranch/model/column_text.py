"""The text of a Spark column, as a name that a user can read and that is the same in every run.

Spark writes the arguments of a Python UDF as it holds them, with the place of the call and the numbers of Java objects.

>>> origin = "Origin(None,Some([Ljava.lang.StackTraceElement;@862ed53),Some((col,job.py:6)),None)"
>>> column = f"UnresolvedAttribute(List(a, id),None,false,{origin})"
>>> column_text(f"Column<'!(is_even(columnnodeexpression({column})))'>")
'!(is_even(a.id))'
>>> added = f"UnresolvedFunction(+,ArraySeq({column}, Literal(1,None,{origin})),false,false,false,{origin})"
>>> column_text(f"Column<'is_even(columnnodeexpression({added}))'>")
'is_even(+(a.id, 1))'
"""

from __future__ import annotations

from typing import Any

AS_HELD = "columnnodeexpression("
BRACKETS = {"(": 1, ")": -1}


def column_text(column: Any) -> str:
    """What a column is, in short."""
    text = str(column)
    text = text[len("Column<'") : -len("'>")] if text.startswith("Column<'") else text
    while (at := text.find(AS_HELD)) >= 0:
        parts = _arguments(text[at:])
        text = f"{text[:at]}..." if parts is None else f"{text[:at]}{_short(parts[0])}{text[at + parts[1] :]}"
    return text


def _short(arguments: list[str]) -> str:
    return ", ".join(_node(a) for a in arguments if not a.startswith("Origin("))


def _node(text: str) -> str:
    """One node, in short: an attribute by its name, a literal by its value, a function by its name and arguments."""
    found = _arguments(text)
    if found is None:
        return text
    name, arguments = text.partition("(")[0], found[0]
    if name in ("List", "Seq", "ArraySeq", "Vector"):
        return _short(arguments)
    if name == "UnresolvedAttribute":
        return _node(arguments[0]).replace(", ", ".")
    if name in ("Literal", "SqlExpression", "Alias"):
        return _node(arguments[0])
    if name == "UnresolvedFunction":
        return f"{arguments[0]}({_node(arguments[1])})"
    if name == "ExpressionColumnNode":
        return arguments[0].rpartition("#")[0]
    return f"{name}({_short(arguments)})"


def _arguments(text: str) -> tuple[list[str], int] | None:
    """What stands between the first brackets, cut at its commas, and where that ends; None if it does not end."""
    begin = text.find("(")
    depth, found = 0, [""]
    for at in range(begin, len(text) if begin >= 0 else begin):
        depth += BRACKETS.get(text[at], 0)
        if not depth:
            return [part.strip() for part in found], at + 1
        if text[at] == "," and depth == 1:
            found.append("")
        elif at > begin:
            found[-1] += text[at]
    return None
