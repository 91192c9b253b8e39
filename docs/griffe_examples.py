"""Examples of docstrings are code on the site.

An extension of griffe, which `mkdocs.yml` names. Where examples stand in the text of a docstring, Markdown would take
them for quotations and their brackets for links; behind a list of parameters they would be taken for parameters.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

LISTS = ("Parameters", "Attributes", "Returns", "Raises", "Yields")
HEADING = ["Examples", "--------"]


class Examples(griffe.Extension):
    """Marks examples as code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of a module, a class, a function or an attribute."""
        if obj.docstring is not None:
            obj.docstring.value = marked(obj.docstring.value)


def marked(text: str) -> str:
    """A docstring with a fence around each example in its text, and a heading over those behind lists.

    >>> print(marked("Twice.\\n\\n>>> 2 * 2\\n4\\n\\nParameters\\n----------\\nnone\\n\\n>>> 3"))
    Twice.
    <BLANKLINE>
    ```pycon
    >>> 2 * 2
    4
    ```
    <BLANKLINE>
    Parameters
    ----------
    none
    <BLANKLINE>
    Examples
    --------
    >>> 3
    """
    made: list[str] = []
    section, fenced = "", False
    for line in [*text.splitlines(), ""]:
        if re.fullmatch("-{3,}", line.strip()) and made:
            section = made[-1].strip()
        if line.startswith(">>> ") and not fenced and section in LISTS:
            made += HEADING
            section = "Examples"
        elif line.startswith(">>> ") and not fenced and section != "Examples":
            made.append("```pycon")
            fenced = True
        if fenced and not line.strip():
            made.append("```")
            fenced = False
        made.append(line)
    return "\n".join(made[:-1])
