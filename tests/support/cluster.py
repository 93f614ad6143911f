"""A Spark standalone cluster and a Spark Connect server on loopback, as processes that a test starts and stops.

Every process is a child in a process group of its own and is ended by its id; its output goes to a file in the
test's folder, whose end is part of the error when it does not come up.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pyspark

from headwater.engine.java import find_java
from headwater.engine.session import TINY_DATA, delta_configuration
from tests.support.runner import run_in_process

HOST = "127.0.0.1"
SPARK_HOME = Path(pyspark.__file__).parent
SMALL_JVM = "-XX:+UseSerialGC"
SMALL_SETTINGS = TINY_DATA | {
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@dataclass(frozen=True)
class StandaloneCluster:
    master: str
    """``spark://127.0.0.1:PORT``"""
    workers: tuple[int, ...]
    """Process ids, for tests that end one."""

    def run(self, target: str, folder: Path, *, timeout: float = 600) -> str:
        """Calls ``package.module:function`` with a session on this cluster and the folder, in a process of its own."""
        return run_in_process("cluster", self.master, target, folder, settings=self.configuration(), timeout=timeout)

    def configuration(self) -> dict[str, str]:
        """What a driver needs besides ``master``."""
        return (
            delta_configuration()
            | SMALL_SETTINGS
            | {
                "spark.driver.host": HOST,
                "spark.driver.bindAddress": HOST,
                "spark.driver.memory": "1g",
                "spark.driver.extraJavaOptions": SMALL_JVM,
                "spark.executor.memory": "1g",
                "spark.executor.cores": "1",
                "spark.executor.extraJavaOptions": SMALL_JVM,
            }
        )


@dataclass(frozen=True)
class ConnectServer:
    url: str
    """``sc://127.0.0.1:PORT``"""
    pid: int

    def run(self, target: str, folder: Path, *, timeout: float = 600) -> str:
        """Calls ``package.module:function`` with a session on this server and the folder, in a process of its own."""
        return run_in_process("connect", self.url, target, folder, timeout=timeout)


@contextmanager
def standalone_cluster(
    folder: Path, *, workers: int = 2, cores: int = 1, memory: str = "1g"
) -> Iterator[StandaloneCluster]:
    """One master and some workers; ready when all workers have registered."""
    port, web_port = free_port(), free_port()
    spark_class = str(SPARK_HOME / "bin" / "spark-class")
    master = f"spark://{HOST}:{port}"
    with ExitStack() as stack:
        options = ["--host", HOST, "--port", str(port), "--webui-port", str(web_port)]
        command = [spark_class, "org.apache.spark.deploy.master.Master", *options]
        process = stack.enter_context(running(command, folder / "master.log"))
        wait_until(lambda: _listens(port), process, folder / "master.log", "the Spark master")
        pids = []
        for number in range(1, workers + 1):
            work = folder / f"worker-{number}"
            work.mkdir()
            log = folder / f"worker-{number}.log"
            options = ["--host", HOST, "--cores", str(cores), "--memory", memory, "--work-dir", str(work)]
            options += ["--webui-port", str(free_port()), master]
            command = [spark_class, "org.apache.spark.deploy.worker.Worker", *options]
            pids.append(stack.enter_context(running(command, log)).pid)
        wait_until(lambda: _alive_workers(web_port) == workers, process, folder / "master.log", "the Spark workers")
        yield StandaloneCluster(master, tuple(pids))


@contextmanager
def connect_server(
    folder: Path, *, master: str = "local[2]", memory: str = "2g", extra: Mapping[str, str] | None = None
) -> Iterator[ConnectServer]:
    """A Spark Connect server with Delta Lake; ready when it takes connections."""
    port = free_port()
    configuration = (
        delta_configuration()
        | SMALL_SETTINGS
        | {
            "spark.connect.grpc.binding.address": HOST,
            "spark.connect.grpc.binding.port": str(port),
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.driver.extraJavaOptions": SMALL_JVM,
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
        }
    )
    configuration |= extra or {}
    command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", master, "--driver-memory", memory]
    for key, value in configuration.items():
        command += ["--conf", f"{key}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    log = folder / "connect.log"
    with running(command, log) as process:
        wait_until(lambda: _listens(port), process, log, "the Spark Connect server")
        yield ConnectServer(f"sc://{HOST}:{port}", process.pid)


@contextmanager
def running(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The process of ``command``, ended when the block ends."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environment |= {
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": HOST,
        "JAVA_HOME": str(find_java().home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": "512m",
        "SPARK_DAEMON_JAVA_OPTS": SMALL_JVM,
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=environment,
            cwd=log.parent,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the process's own group: executors that a worker started are in it."""
    _signal_group(process, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=20)
    _signal_group(process, signal.SIGKILL)
    process.wait(timeout=10)


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def wait_until(
    ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path, what: str, *, timeout: float = 120
) -> None:
    deadline = time.monotonic() + timeout
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-30:])
            why = "ended" if process.poll() is not None else f"is not ready after {timeout:.0f} s"
            raise RuntimeError(f"{what} {why}:\n{tail}")
        time.sleep(0.2)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0


def _alive_workers(web_port: int) -> int:
    try:
        with urlopen(f"http://{HOST}:{web_port}/json/", timeout=2) as answer:
            return int(json.load(answer)["aliveworkers"])
    except (URLError, OSError, ValueError, KeyError):
        return 0
