"""Finds a Java that can run Spark.

Spark 4.2 needs Java 17 or newer with the module ``jdk.incubator.vector``; slimmed-down Java images on package
indexes lack that module, and Spark does not start on them. Run ``python -m headwater.engine.java`` to see which
one is taken.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import EngineUnavailable

MINIMUM = 17
_VECTOR_MODULE = "jdk.incubator.vector"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)([^"]*)"')
_INSTALLED_UNDER = (
    ("/usr/lib/jvm", "*/bin/java"),
    ("/Library/Java/JavaVirtualMachines", "*/Contents/Home/bin/java"),
    ("/opt/homebrew/opt", "openjdk*/bin/java"),
)


@dataclass(frozen=True, slots=True)
class Java:
    executable: Path
    major: int
    version: str

    @property
    def home(self) -> Path:
        return self.executable.resolve().parent.parent


def find_java(candidates: Iterable[Path] | None = None) -> Java:
    """The first usable Java among ``candidates`` (by default: JAVA_HOME, PATH, the usual folders)."""
    rejected: list[str] = []
    for executable in candidates if candidates is not None else candidate_paths():
        probed = probe(executable)
        if isinstance(probed, Java):
            return probed
        rejected.append(f"{executable} ({probed})")
    seen = f" Rejected: {'; '.join(rejected)}." if rejected else ""
    raise EngineUnavailable(
        f"Spark needs Java {MINIMUM} or newer, and none was found in JAVA_HOME, on PATH or under /usr/lib/jvm.{seen}",
        remedy="Install one (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; Fedora: dnf install "
        "java-17-openjdk-headless; macOS: brew install openjdk@17) or set JAVA_HOME.",
    )


def candidate_paths(environ: Mapping[str, str] = os.environ) -> Iterator[Path]:
    """Where a Java may be, each executable once, the user's own choice first."""
    seen: set[Path] = set()
    for path in _all_paths(environ):
        if path.is_file() and (real := path.resolve()) not in seen:
            seen.add(real)
            yield path


def _all_paths(environ: Mapping[str, str]) -> Iterator[Path]:
    if home := environ.get("JAVA_HOME"):
        yield Path(home, "bin", "java")
    if on_path := shutil.which("java", path=environ.get("PATH")):
        yield Path(on_path)
    for folder, pattern in _INSTALLED_UNDER:
        yield from sorted(Path(folder).glob(pattern))


def probe(executable: Path) -> Java | str:
    """The Java behind ``executable``, or why Spark can't use it."""
    status, said = _run(executable, "-version")
    match = _VERSION.search(said)
    if status != 0 or match is None:
        return "does not run"
    major, version = int(match[1]), match[1] + match[2]
    if major < MINIMUM:
        return f"is version {version}"
    # The launcher refuses to start when a module is missing, which is surer than parsing a list of them.
    status, _ = _run(executable, "--add-modules", _VECTOR_MODULE, "-version")
    if status != 0:
        return f"lacks the module {_VECTOR_MODULE}"
    return Java(executable, major, version)


def _run(*command: str | Path) -> tuple[int, str]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return -1, ""
    return done.returncode, done.stderr + done.stdout


def main() -> int:
    try:
        java = find_java()
    except EngineUnavailable as error:
        print(error, file=sys.stderr)
        return 1
    print(f"Java {java.version} at {java.home}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
