"""The commands: a demo, and the benches and reproductions, which are found and loaded by name."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import Annotated, Any

import typer
from rich.console import Console

import anabranch
from anabranch.cli.client import ADDRESS, Client
from anabranch.cli.files import make_folder, make_room
from anabranch.errors import MissingExtra, QueryError, suggest

NOUNS = {"benches": "benches", "reproduce": "reproductions"}

app = typer.Typer(
    help="Adaptive, multi-route query processing for Spark.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Quick = Annotated[bool, typer.Option("--quick", help="Less data: minutes become seconds, figures become rougher.")]
Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the figures here, too.")]


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Url = Annotated[str, typer.Option(help="Of the console.")]
Token = Annotated[str | None, typer.Option(help="By default that of ANABRANCH_TOKEN, or of your own console.")]


def _tell_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"anabranch {anabranch.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Adaptive, multi-route query processing for Spark."""


@app.command()
def demo(
    rows: Annotated[int, typer.Option(min=1_000, help="Packets to generate.")] = 400_000,
    report: Annotated[Path, typer.Option(metavar="FILE", help="Where the HTML report goes.")] = Path(
        "anabranch-demo.html"
    ),
    serve: Annotated[
        bool, typer.Option(help="Open the console on the packets at the end; not done where there is no terminal.")
    ] = True,
) -> None:
    """Watch filters being reordered on generated packets, and compare with plain Spark."""
    from anabranch.cli.demo import run

    run(rows, report, serve=serve and sys.stdin.isatty() and sys.stdout.isatty())


@app.command()
def run(
    file: Annotated[Path, typer.Argument(help="Streams, relations and queries in CQL.")],
    checkpoint: Annotated[
        Path, typer.Option(metavar="DIR", help="State and answers; the same folder goes on where it stood.")
    ] = Path("anabranch-state"),
    batch: Annotated[bool, typer.Option("--batch", help="Read the inputs as they are, to their end.")] = False,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="Stop once all rows that are there by now have been answered.")
    ] = False,
    seconds: Annotated[float | None, typer.Option(min=0, help="Stop after so long; on Ctrl-C if not given.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print nothing but figures of the queries, at the end.")] = False,
) -> None:
    """Run continuous queries; a live table shows how far they are. Exit code 3 if a query has failed."""
    from anabranch.cli.run import run as run_script

    given = {"batch": batch, "until_idle": until_idle, "as_json": json}
    raise typer.Exit(run_script(file, checkpoint, Console(), seconds=seconds, **given))


@app.command()
def explain(file: Annotated[Path, typer.Argument(help="Streams, relations and queries in CQL.")]) -> None:
    """Print the plans of queries, as text and as Mermaid."""
    from anabranch.cli.explain import explain as explain_script

    explain_script(file, typer.echo)


@app.command()
def advise(
    file: Annotated[Path, typer.Argument(help="Streams, relations and queries in CQL.")],
    json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the findings and features here, too.")
    ] = None,
) -> None:
    """Say what a change of queries or streams would save: what could be shared, summed up or left out."""
    from anabranch.cli.advise import advise as advise_script

    raise typer.Exit(advise_script(file, Console(), json_path=json))


@app.command()
def serve(
    file: Annotated[Path | None, typer.Argument(help="Streams, relations and queries in CQL.")] = None,
    checkpoint: Annotated[
        Path, typer.Option(metavar="DIR", help="State and answers; the same folder goes on where it stood.")
    ] = Path("anabranch-state"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8765,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    allow_remote: Annotated[bool, typer.Option("--allow-remote", help="Let others in; needs TLS.")] = False,
    tls_cert: Annotated[Path | None, typer.Option(metavar="FILE", help="The certificate.")] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its key.")] = None,
    allow: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="Clients may use files below it; may be repeated.")
    ] = None,
    functions: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A Python file whose functions queries may call.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(min=0, help="Stop after so long; on Ctrl-C if not given.")] = None,
    json: AsJson = False,
) -> None:
    """Run continuous queries with the console; exit code 3 if a query has failed."""
    from anabranch.cli.serve import serve as serve_script

    given = {"port": port, "host": host, "allow_remote": allow_remote, "tls_cert": tls_cert, "tls_key": tls_key}
    code = serve_script(
        file,
        checkpoint,
        Console(),
        functions=functions,
        allow=allow or (),
        seconds=seconds,
        as_json=json,
        **given,
    )
    raise typer.Exit(code)


@app.command()
def top(
    url: Url = ADDRESS,
    token: Token = None,
    seconds: Annotated[float | None, typer.Option(min=0, help="Stop after so long.")] = None,
    json: AsJson = False,
) -> None:
    """Show the queries of a running console: rates, lag, state, orders; once, where there is no terminal."""
    from anabranch.cli.top import top as show

    raise typer.Exit(show(Client(url, token), Console(), as_json=json, seconds=seconds))


@app.command()
def events(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as events come.")] = False,
    kind: Annotated[str, typer.Option(help="Only these, as Reordered or QueryFailed.")] = "",
    filter: Annotated[str, typer.Option(help="Only of this filter, as busy/1.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many to begin with.")] = 50,
    url: Url = ADDRESS,
    token: Token = None,
    seconds: Annotated[float | None, typer.Option(min=0, help="Follow for so long.")] = None,
    json: AsJson = False,
) -> None:
    """Print decisions and failures of a running console, a line each."""
    from anabranch.cli.events import events as show

    code = show(
        Client(url, token),
        Console(),
        follow=follow,
        kind=kind,
        filter=filter,
        limit=limit,
        as_json=json,
        seconds=seconds,
    )
    raise typer.Exit(code)


@app.command()
def sql(
    command: Annotated[str | None, typer.Option("--command", "-c", help="Carry this out and leave.")] = None,
    url: Url = ADDRESS,
    token: Token = None,
    json: AsJson = False,
) -> None:
    """Type statements for a running console, or pipe them in."""
    from anabranch.cli.sql import sql as shell

    raise typer.Exit(shell(Client(url, token), Console(), command=command, as_json=json))


@app.command()
def doctor(
    checkpoint: Annotated[Path, typer.Option(metavar="DIR", help="Where state would be kept.")] = Path(),
    json: AsJson = False,
) -> None:
    """Say what is wrong with Java, Python, Spark, memory or disk, and how to fix it; exit code 3 if something is."""
    from anabranch.cli.doctor import run as examine

    raise typer.Exit(examine(checkpoint, typer.echo, as_json=json))


@app.command()
def bench(
    name: Annotated[str | None, typer.Argument(help="Which one; all of them if not given.")] = None,
    quick: Quick = False,
    json: Json = None,
    old: Annotated[
        Path | None,
        typer.Option("--old", metavar="DIR", help="An earlier version as a worktree, for `queries`, `joins`."),
    ] = None,
) -> None:
    """Measure against plain Spark and other engines; exit code 3 if a target is missed."""
    if old is not None and name not in ("queries", "joins"):
        raise QueryError("the benches 'queries' and 'joins' compare with an earlier version", hint="leave --old out")
    more = {} if old is None else {"old": old}
    _run_all("benches", name, lambda each, run: run(quick=quick, json_path=json, **more), json)


@app.command()
def reproduce(
    name: Annotated[str | None, typer.Argument(help="Which one; all of them if not given.")] = None,
    quick: Quick = False,
    json: Json = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the figures.")] = Path("reproduction"),
) -> None:
    """Re-create published figures; exit code 3 if a claim does not hold."""
    _run_all("reproduce", name, lambda each, run: run(quick=quick, json_path=json, out=out / each), json, out)


def _run_all(
    package: str,
    name: str | None,
    call: Callable[[str, Callable[..., int]], int],
    json: Path | None,
    out: Path | None = None,
) -> None:
    names = _names(package)
    if name is not None and name not in names:
        raise QueryError(f"there is no {name!r} among the {NOUNS[package]}", hint=suggest(name, names, NOUNS[package]))
    chosen = names if name is None else [name]
    if json is not None and len(chosen) > 1:
        raise QueryError(f"one file cannot hold the figures of {len(chosen)} {NOUNS[package]}", hint="name one of them")
    if json is not None:
        make_room(json)
    if out is not None:
        for each in chosen:
            make_folder(out / each)
    codes = [call(each, _loaded(f"anabranch.{package}.{each}").main) for each in chosen]
    raise typer.Exit(max(codes, default=0))


def _loaded(module: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as missing:
        if (missing.name or "anabranch").startswith("anabranch"):
            raise
        raise MissingExtra(missing.name or "", "bench", needed_for="benches and reproductions") from missing


def _names(package: str) -> list[str]:
    """The modules of a package that have a `main`, found by their source: importing one may need extras."""
    found = iter_modules(import_module(f"anabranch.{package}").__path__)
    return sorted(module.name for module in found if _has_main(f"anabranch.{package}.{module.name}"))


def _has_main(module: str) -> bool:
    spec = find_spec(module)
    source = Path(spec.origin).read_text(encoding="utf-8") if spec and spec.origin else ""
    return re.search(r"^(?:def main\(|from \S+ import .*\bmain\b)", source, re.MULTILINE) is not None
