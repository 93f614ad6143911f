"""A TCP proxy on loopback whose connections can be cut at any byte."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Proxy:
    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self._left: int | None = None
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_after(self, size: int | None) -> None:
        """Cut every connection once so many more bytes have come from the server; None: leave them alone."""
        with self._lock:
            self._left = size

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(self._target)
                except OSError:  # nobody is there just now
                    client.close()
                    continue
                with self._lock:
                    self._open += [client, server]
                threading.Thread(target=self._pump, args=(client, server, False), daemon=True).start()
                threading.Thread(target=self._pump, args=(server, client, True), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, counted: bool) -> None:
        with suppress(OSError):
            while data := source.recv(4096):
                if counted and self._is_cut(len(data)):
                    break
                sink.sendall(data)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _is_cut(self, size: int) -> bool:
        with self._lock:
            if self._left is None:
                return False
            self._left -= size
            if self._left < 0:
                self._left = None
                self.cuts += 1
                return True
            return False

    def close(self) -> None:
        self._listener.close()
        for each in self._open:
            each.close()


@contextmanager
def proxied(host: str, port: int) -> Iterator[Proxy]:
    proxy = Proxy((host, port))
    try:
        yield proxy
    finally:
        proxy.close()
