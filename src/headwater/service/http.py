"""The doors of the service, on loopback: metrics for Prometheus, and a bell for readers.

    GET  /metrics              the figures
    GET  /healthz              200 while the loop goes round
    POST /views/NAME/refresh   waits until the view is fresh; how long that took and what was predicted, as JSON

Bound to a loopback address and nothing else: there is no login. A request from a web page is refused by its Host or
Origin header, since a browser would carry one here for any page that it shows.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import Any, Protocol
from urllib.parse import unquote

from headwater.errors import InvalidInput
from headwater.service.loop import Demand

LONGEST_WAIT = 3600.0  # seconds that a reader's request stays open
_LOCAL_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})


class Asked(Protocol):
    def demand(self, view: str) -> Demand: ...


@contextmanager
def serving(
    loop: Asked, metrics: Callable[[], str], *, port: int, host: str = "127.0.0.1", alive: Callable[[], bool]
) -> Iterator[int]:
    """Serve while the block runs; the port, which port 0 leaves to the system."""
    if not ip_address(host).is_loopback:
        raise InvalidInput(f"{host} is not a loopback address.", remedy="Use 127.0.0.1, and a proxy of your own.")

    class Handler(_Handler):
        pass

    Handler.loop, Handler.metrics, Handler.alive = loop, staticmethod(metrics), staticmethod(alive)
    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except OSError as error:
        raise InvalidInput(
            f"Port {port} of {host} can't be had: {error.strerror}.", remedy="Choose another with --port, or 0."
        ) from error
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="headwater-http", daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    server_version = "headwater"
    loop: Asked
    metrics: Callable[[], str]
    alive: Callable[[], bool]

    def do_GET(self) -> None:
        if self._refused():
            return
        match self.path:
            case "/metrics":
                self._answer(200, type(self).metrics(), "text/plain; version=0.0.4; charset=utf-8")
            case "/healthz":
                alive = type(self).alive()
                self._json(200 if alive else 503, {"alive": alive})
            case _:
                self._json(404, {"code": "NOT_FOUND", "message": "There are /metrics and /healthz."})

    def do_POST(self) -> None:
        if self._refused():
            return
        match self.path.split("/"):
            case ["", "views", name, "refresh"]:
                asked = type(self).loop.demand(unquote(name))
                if not asked.finished.wait(LONGEST_WAIT):
                    self._json(504, {"code": "TIMEOUT", "message": "The view is not fresh yet.", **asked.as_dict()})
                else:
                    self._json(200 if asked.error is None else 409, asked.as_dict())
            case _:
                self._json(404, {"code": "NOT_FOUND", "message": "There is POST /views/NAME/refresh."})

    def _refused(self) -> bool:
        host = (self.headers.get("Host") or "").rpartition(":")[0] or (self.headers.get("Host") or "")
        if host in _LOCAL_HOSTS and self.headers.get("Origin") is None:
            return False
        self._json(403, {"code": "FORBIDDEN", "message": "This door is for programs of this machine."})
        return True

    def _json(self, status: int, value: dict[str, Any]) -> None:
        self._answer(status, json.dumps(value) + "\n", "application/json")

    def _answer(self, status: int, text: str, kind: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the name is the base class's
        """Requests are no decisions: they stay out of the log."""
