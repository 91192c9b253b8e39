"""Route tokens: a route as a stack of operator numbers, the next one on top, with sets where the sequence is uncertain.

>>> written(token((1, 2, 0)))
'<2, 3, 1>'
>>> uncertain = read("<2, 3|1, 4>")
>>> uncertain
(2, frozenset({1, 3}), 4)
>>> written(chosen(uncertain[1:], 3))
'<3, 1, 4>'
>>> written(chosen(read("<3|1|4>"), 3))
'<3, 1|4>'

Notes
-----
op_i -> operator i, which is filter i - 1: number 0 is the output; an r-token -> `Token`.

References
----------
R. Nehme, K. Works, C. Lei, E. Rundensteiner, E. Bertino, *Multi-route query processing and optimization*, sections 5.2
and 5.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from anabranch.model.arrays import BoolMatrix, Floats, Order
from anabranch.ordering import Precedence, expected_cost

Element = int | frozenset[int]
Token = tuple[Element, ...]


def token(order: Iterable[int | Iterable[int]]) -> Token:
    """The token of an order of filters; filters that stand together in a set may come in any sequence."""
    return tuple(_element(g + 1 for g in f) if isinstance(f, Iterable) else f + 1 for f in order)


def chosen(stack: Token, operator: int) -> Token:
    """The stack once `operator` was picked among the alternatives on top: it comes first, the others stay uncertain."""
    top = stack[0]
    if isinstance(top, int):
        return stack
    left = top - {operator}
    return (operator, _element(left), *stack[1:]) if left else (operator, *stack[1:])


def operators(stack: Token) -> tuple[int, ...]:
    """All operators of a token, alternatives in ascending sequence."""
    return tuple(op for e in stack for op in ((e,) if isinstance(e, int) else sorted(e)))


def route(stack: Token) -> tuple[int | frozenset[int], ...]:
    """The filters of a token, with sets of those that may come in any sequence: what `token` made a token of.

    >>> route(read("<2, 1|3>"))
    (1, frozenset({0, 2}))
    """
    return tuple(e - 1 if isinstance(e, int) else frozenset(op - 1 for op in e) for e in stack)


def written(stack: Token) -> str:
    """As in the paper: ``<2, 1|3, 4>``."""
    return f"<{', '.join(str(e) if isinstance(e, int) else '|'.join(map(str, sorted(e))) for e in stack)}>"


def read(text: str) -> Token:
    """What `written` wrote."""
    inner = text.strip("<> ")
    return tuple(_element(map(int, e.split("|"))) for e in inner.split(",")) if inner else ()


def uncertain_route(order: Order, rows: BoolMatrix, costs: Floats, precedence: Precedence, tolerance: float) -> Token:
    """The token of an order in which neighbours become alternatives if changing places costs next to nothing.

    `tolerance` is the share of the order's cost that a change may add or save. What must come before another filter is
    never an alternative to it.

    >>> import numpy as np
    >>> drops = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=bool)
    >>> written(uncertain_route((0, 1, 2), drops, np.ones(3), Precedence.none(3), tolerance=0.01))
    '<1, 2|3>'
    """
    cost, groups = expected_cost(order, rows, costs), [[order[0]]] if order else []
    for place, f in enumerate(order[1:], start=1):
        swapped = (*order[: place - 1], f, order[place - 1], *order[place + 1 :])
        alike = abs(expected_cost(swapped, rows, costs) - cost) <= tolerance * cost
        if alike and len(groups[-1]) < 2 and not precedence.ancestors[f].intersection(groups[-1]):
            groups[-1].append(f)
        else:
            groups.append([f])
    return token(_flat(groups))


def _flat(groups: Sequence[Sequence[int]]) -> Iterable[int | Sequence[int]]:
    return (g[0] if len(g) == 1 else g for g in groups)


def _element(alternatives: Iterable[int]) -> Element:
    several = frozenset(alternatives)
    return next(iter(several)) if len(several) == 1 else several
