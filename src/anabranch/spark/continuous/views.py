"""Views that texts read from, bound to the rows that are due in a tick.

Views of all sessions are used: those of sources and of the user's live in others than ours.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from pyspark.sql import DataFrame, SparkSession

BEGINS = "begins"
"""The parameter of texts that says whether it is a query's first tick, in which it sees the rows of relations."""


class Views:
    """The views of one engine.

    Parameters
    ----------
    session
        In which texts are run.
    owner
        Prefix of their names.
    """

    def __init__(self, session: SparkSession, owner: str) -> None:
        self.session = session
        self._owner = owner
        self._database = session.conf.get("spark.sql.globalTempDatabase")
        self._bound: set[str] = set()
        self._lock = threading.Lock()

    def name(self, what: str) -> str:
        """The name of a view, as texts write it."""
        return f"{self._database}.`{self._owner}_{what.replace('.', '_')}`"

    def bind(self, view: str, df: DataFrame) -> None:
        """Let a view stand for a DataFrame."""
        with self._lock:
            self._bind(view, df)

    def ensure(self, view: str, make: Callable[[], DataFrame]) -> None:
        """Let a view stand for something with the right columns, if it stands for nothing yet."""
        with self._lock:
            if view not in self._bound:
                self._bind(view, make())

    def drop(self, views: Iterable[str]) -> None:
        """Forget views, which hold the plans of what they stand for."""
        with self._lock:
            bound = self._bound.intersection(views)
            if not bound:
                return
            catalog = self.session._jsparkSession.sessionState().catalog()  # the public one unpersists the view's plan
            for view in bound:
                catalog.dropGlobalTempView(_bare(view))
                self._bound.remove(view)

    def of_source(self, kind: str, name: str, ago: int = 0) -> str:
        """The name of the view that stands for rows of a stream, of a summary, or of a relation."""
        return self.name(f"{kind}_{ago}_{name}")

    def drop_source(self, name: str) -> None:
        """Forget the views of a stream or relation."""
        self.drop([view for view in self._bound if view.endswith(f"_{name}`")])

    def drop_all(self) -> None:
        """Forget all of them."""
        self.drop(list(self._bound))

    def select(self, text: str, begins: bool = True) -> DataFrame:
        """What a text selects, with the views as they are bound now."""
        return self.session.sql(text, {BEGINS: begins})

    def _bind(self, view: str, df: DataFrame) -> None:
        df.createOrReplaceGlobalTempView(_bare(view))
        self._bound.add(view)


def _bare(view: str) -> str:
    return view.split(".", 1)[1].strip("`")
