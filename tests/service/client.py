"""A program of this machine that talks to the service."""

from __future__ import annotations

from http.client import HTTPConnection


def request(port: int | None, method: str, path: str, **headers: str) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()
