"""Requests and responses over ASGI, with limits on what a client may send and how slowly."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from plackett.serving.server.settings import Limits, Refusal

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

JSON = "application/json"
PROBLEM = "application/problem+json"
BYTES = "application/octet-stream"

_BAD_REQUEST, _TIMEOUT, _TOO_LARGE, _BUSY = 400, 408, 413, 503
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_BUDGET = 32  # bodies of the largest size that may be half received at a time
_DRAIN_SECONDS, _DRAIN_BYTES = 1.0, 32 << 20
"""What a client gets to finish sending what is not wanted."""


class Gone(Exception):  # noqa: N818 - the client's choice, no error
    """The client has closed the connection."""


class Request:
    """A request whose body is not read yet."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers: dict[str, str] = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in scope["headers"]
        }
        self.receive = receive
        self.started = time.perf_counter()
        self.route = "unknown"
        """What it asks for, without names that a client may make up."""
        self.facts: dict[str, Any] = {}
        """What the log shall tell about it."""
        given = self.headers.get("x-request-id", "")
        self.id = given if _ID.fullmatch(given) else secrets.token_hex(8)

    @property
    def media_type(self) -> str:
        """What the body claims to be, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


@dataclass
class Response:
    """What a client gets."""

    body: bytes
    status: int = 200
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)


class Receiver:
    """Reads bodies, all of them together within a budget of memory.

    Parameters
    ----------
    limits
        Bytes and seconds of one body.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._held = 0

    async def read(self, request: Request) -> bytes:
        """The whole body; raises :class:`Refusal` or :class:`Gone`."""
        try:
            return await asyncio.wait_for(self._read(request), self._limits.seconds)
        except asyncio.TimeoutError:
            raise Refusal(
                _TIMEOUT,
                f"the body was not received within {self._limits.seconds:g} seconds.",
                {"connection": "close"},
            ) from None

    async def _read(self, request: Request) -> bytes:
        length = request.headers.get("content-length", "")
        if length.isdigit() and int(length) > self._limits.body:
            await self._too_large(request, f"{length} bytes")
        parts: list[bytes] = []
        size, more = 0, True
        try:
            while more:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise Gone
                part = message.get("body", b"")
                more = message.get("more_body", False)
                size += len(part)
                self._held += len(part)
                if size > self._limits.body:
                    parts.clear()
                    await self._too_large(request, "more")
                if self._held > _BUDGET * self._limits.body:
                    raise busy("too many large requests at a time")
                parts.append(part)
        finally:
            self._held -= size
        return b"".join(parts)

    async def _too_large(self, request: Request, found: str) -> None:
        # A client that is still sending would see a broken connection instead of the reason.
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(_drain(request), _DRAIN_SECONDS)
        raise Refusal(
            _TOO_LARGE,
            f"a body may have {self._limits.body} bytes, this one has {found}; send fewer lists "
            "at a time, or the compact form (application/octet-stream).",
            {"connection": "close"},
        )


async def _drain(request: Request) -> None:
    size, more = 0, True
    while more and size < _DRAIN_BYTES:
        message = await request.receive()
        size += len(message.get("body", b""))
        more = message["type"] != "http.disconnect" and message.get("more_body", False)


def busy(reason: str) -> Refusal:
    """Tell a client to come back."""
    return Refusal(_BUSY, f"{reason}; try again in a second.", {"retry-after": "1"})


async def send_response(send: Send, request: Request, response: Response) -> None:
    """Send a response; the body is left out for HEAD."""
    headers = {
        "content-type": response.content_type,
        "content-length": str(len(response.body)),
        "x-request-id": request.id,
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
        **response.headers,
    }
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": response.status, "headers": encoded})
    body = b"" if request.method == "HEAD" else response.body
    await send({"type": "http.response.body", "body": body})
