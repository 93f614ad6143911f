"""What needs no Spark starts none: these run in a process of their own, where a started JVM would be seen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import headwater
from tests.cli.conftest import Run


def headwater_process(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    # No Java can be found: a command that wanted Spark would fail.
    environment = {**os.environ, "JAVA_HOME": "/nowhere", "PATH": "/nowhere", **variables}
    command = [sys.executable, "-m", "headwater.cli.main", *(str(each) for each in arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)


def test_init_and_status(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    made = headwater_process("init", "--lake", lake)
    assert (made.returncode, made.stderr) == (0, "")
    assert str(lake) in made.stdout
    shown = headwater_process("--json", "status", HEADWATER_LAKE=str(lake))
    assert (shown.returncode, shown.stderr) == (0, "")
    assert json.loads(shown.stdout) == {
        "location": str(lake),
        "catalog": f"sqlite:///{lake}/catalog.db",
        "newest_csn": 0,
        "tables": [],
        "views": [],
    }


def test_help_names_every_command(run: Run) -> None:
    text = run("--help").stdout
    names = "init track untrack resync declare undeclare constraints verify sql capture propagate refresh read status "
    names += "explain demo bench version "
    names += "calibrate costs simulate run release releases tag untag retention collect staleness snapshot"
    assert [name for name in names.split() if name not in text] == []


@pytest.mark.parametrize("name", ["track", "sql", "read", "refresh", "demo", "bench"])
def test_help_of_a_command(run: Run, name: str) -> None:
    assert "--json" in run(name, "--help").stdout


def test_version(run: Run) -> None:
    assert headwater.__version__ in run("version").stdout
    assert run("version", "--json").json()["headwater"] == headwater.__version__


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such-command"],
        ["refresh"],
        ["read", "v", "--limit", "0"],
        ["read", "v", "--format", "xml"],
        ["track", "t", "path", "--mode", "sometimes"],
        ["refresh", "v", "--all"],
        ["refresh", "v", "w", "--within", "10s"],
        ["sql", "SELECT 1", "--file", __file__],
        ["sql", "--file", "/no/such/file"],
    ],
)
def test_wrong_usage(run: Run, tmp_path: Path, arguments: list[str]) -> None:
    assert run("--lake", tmp_path, *arguments, code=2).stdout == ""


@pytest.mark.parametrize("option", ["--tick", "--release-every", "--collect-every", "--for"])
def test_no_time_at_all_is_no_time_between(run: Run, tmp_path: Path, option: str) -> None:
    run("init", "--lake", tmp_path / "lake")
    told = run("run", "--lake", tmp_path / "lake", option, "0s", "--json", code=1).json()
    assert (told["code"], option in told["message"]) == ("INVALID_INPUT", True)


def test_no_lake(run: Run, tmp_path: Path) -> None:
    missing = tmp_path / "none"
    told = run("status", "--lake", missing, code=1)
    assert told.stdout == ""
    assert "NOT_A_LAKE" in told.stderr
    assert f"headwater init --lake {missing}" in told.stderr
    assert run("status", "--lake", missing, "--json", code=1).json()["code"] == "NOT_A_LAKE"
    assert not missing.exists()


def test_a_file_is_not_a_lake(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert run("init", "--lake", file, "--json", code=1).json()["code"] == "NOT_A_LAKE"


def test_a_catalog_of_ones_own(run: Run, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/elsewhere.db"
    run("init", "--lake", tmp_path / "lake", "--catalog", url)
    assert run("status", "--lake", tmp_path / "lake", "--catalog", url, "--json").json()["catalog"] == url
    assert (
        run("--catalog", "mysql://x", "init", "--lake", tmp_path / "l", "--json", code=1).json()["code"]
        == "INVALID_INPUT"
    )


def test_interrupt(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("headwater.lake.connect", interrupted)
    assert "Interrupted" in run("status", "--lake", tmp_path, code=130).stderr


def test_the_unexpected(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oh dear\nand more")

    monkeypatch.setattr("headwater.lake.connect", broken)
    told = run("status", "--lake", tmp_path, code=1).stderr
    assert "ZeroDivisionError: oh dear" in told
    assert "HEADWATER_DEBUG=1" in told
    assert "Traceback" not in told
    found = run("status", "--lake", tmp_path, "--json", code=1).json()
    assert found["code"] == "UNEXPECTED"
    monkeypatch.setenv("HEADWATER_DEBUG", "1")
    assert "Traceback" in run("status", "--lake", tmp_path, code=1).stderr


def test_bench(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    called: list[object] = []

    def measure(name: str, *, sf: float | None, json_path: Path | None, progress: object) -> dict[str, object]:
        called.append((name, sf, json_path))
        return {"targets": [{"name": "ratio", "target": 2.5, "measured": 1.5, "met": True}]}

    monkeypatch.setattr("headwater.bench.run", measure)
    monkeypatch.setattr("headwater.bench.BENCHES", {"speed": "how fast"})
    assert "how fast" in run("bench").stdout
    assert "speed" in run("bench", "no-such-bench", code=1).stderr
    told = run("bench", "speed", "--sf", "0.1", "--json", tmp_path / "figures.json").stdout
    assert called == [("speed", 0.1, tmp_path / "figures.json")]
    assert "ratio" in told
    assert "figures.json" in told.replace("\n", "")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["sources", "--parts", "load,reading"], "has no part reading"),
        (["he", "--parts", "load"], "does not take parts"),
    ],
)
def test_bench_refuses_what_it_does_not_know(run: Run, arguments: list[str], told: str) -> None:
    assert told in run("bench", *arguments, code=1).stderr


def test_bench_missing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "headwater.bench", None)
    assert "no benchmarks" in run("bench", code=1).stderr
