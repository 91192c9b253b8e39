"""`anabranch serve`: runs the queries of a file, with the console."""

from __future__ import annotations

import importlib.util
import inspect
import json
import sys
import threading
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from anabranch.cli import files
from anabranch.cli.run import report_failures
from anabranch.errors import QueryError

if TYPE_CHECKING:
    pass

TYPES: dict[object, str] = {bool: "boolean", int: "bigint", float: "double", str: "string"}


def serve(
    file: Path | None,
    checkpoint: Path,
    console: Console,
    *,
    functions: Path | None = None,
    allow: Sequence[Path] = (),
    seconds: float | None = None,
    as_json: bool = False,
    **options: Any,
) -> int:
    """Run a file of statements and serve the console until it is interrupted; 3 if a query has failed."""
    from anabranch.engine.engine import Engine
    from anabranch.spark.session import local_session

    text = "" if file is None else files.read(file)
    found = {} if functions is None else functions_of(functions)
    for folder in allow:
        if not folder.is_dir():
            raise QueryError(f"there is no folder {folder}", hint="--allow names folders below which files may be used")
    files.make_folder(checkpoint)
    engine = Engine(local_session("anabranch-serve"), checkpoint)
    for name, (function, returns) in found.items():
        engine.function(name, function, returns)
    said = engine.execute(text)
    service = engine.serve(allow=allow, **options)
    try:
        for query in engine.queries.values():
            query.start()
        if as_json:
            console.print_json(json.dumps({"url": service.url, "viewer_url": service.viewer_url}))
        else:
            for each in said:
                console.print(each, markup=False, highlight=False)
            console.print(f"console: {service.url}", soft_wrap=True, highlight=False)
            console.print(f"to look only: {service.viewer_url}", soft_wrap=True, highlight=False)
        threading.Event().wait(seconds)
    except KeyboardInterrupt:
        console.print("stopping; the same command goes on from here")
    finally:
        service.stop()
        engine.stop()
    return report_failures(engine, console)


def functions_of(file: Path) -> dict[str, tuple[Callable[..., Any], str]]:
    """The public functions of a Python file, with the types that they return: bool, int, float or str."""
    files.read(file)
    spec = importlib.util.spec_from_file_location(f"anabranch_functions_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise QueryError(f"{file} cannot be run: {type(error).__name__}: {error}", hint="fix it first") from error
    found: dict[str, tuple[Callable[..., Any], str]] = {}
    for name, function in inspect.getmembers(module, inspect.isfunction):
        if name.startswith("_") or function.__module__ != module.__name__:
            continue
        returns = typing.get_type_hints(function).get("return")
        if returns not in TYPES:
            raise QueryError(
                f"function {name} of {file} does not say what it returns",
                hint="annotate it, as in `def large(size: int) -> bool`",
            )
        found[name] = (function, TYPES[returns])
    _send_whole(module)
    return found


def _send_whole(module: Any) -> None:
    """Workers cannot import the file, so that its functions are sent whole."""

    from pyspark import cloudpickle

    sys.modules[module.__name__] = module
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
