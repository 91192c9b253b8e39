"""`ab.watch`: the console of filters that run without an engine."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from anabranch.console.service import Service, serve

if TYPE_CHECKING:
    from anabranch.spark.filters.filter import Filter

_lock = threading.Lock()
_running: list[Service] = []


def watch(watched: Filter, name: str = "filter", *, port: int = 0, **options: Any) -> Service:
    """Show a filter in the console while it runs; returns the service, which all watched filters of a program share.

    Parameters
    ----------
    watched
        The filter; `ab.Filter(...)`, which is then applied.
    name
        What the console calls it.
    port
        Of the service, if none runs yet; 0 takes a free one.
    options
        Others of `anabranch.console.service.serve`.
    """
    with _lock:
        if not _running or not _running[0].running:
            _running[:] = [serve(None, port=port, **options)]
        _running[0].watch(name, watched)
        return _running[0]
