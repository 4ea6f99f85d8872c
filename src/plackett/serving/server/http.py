"""HTTP around the models: errors as problem+json, access control, and bodies within limits."""

import asyncio
import contextlib
import hashlib
import hmac
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Literal, TypeAlias

import msgspec
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from plackett.serving.server.schemas import Problem
from plackett.serving.server.settings import Limits, Settings

JSON = "application/json"
PROBLEM = "application/problem+json"
BYTES = "application/octet-stream"
AccessLevel: TypeAlias = Literal["open", "token", "admin"]

_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
_MAX_UNREAD_BODIES = 32  # bodies of the largest size that may be partly received at a time
_DRAIN_SECONDS, _DRAIN_BYTES = 1.0, 32 << 20
"""How long, and how much, a client may continue to send after its body was rejected."""


class HTTPError(Exception):
    """A request that is rejected with a reason.

    ``detail`` states what was received, what is allowed and what to do, but never the content of documents.
    """

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = headers

    def to_response(self) -> Response:
        """The response in the form of RFC 9457."""
        problem = Problem(HTTPStatus(self.status).phrase, self.status, self.detail)
        return Response(msgspec.json.encode(problem), self.status, self.headers, PROBLEM)


def too_busy(reason: str) -> HTTPError:
    """Ask a client to try again later."""
    return HTTPError(503, f"{reason}; try again in a second.", {"retry-after": "1"})


class AccessPolicy:
    """Checks the headers of requests against the settings of a server."""

    def __init__(self, settings: Settings) -> None:
        self._token = None if settings.token is None else _digest(settings.token)
        self._hosts = {*_LOCAL_HOSTS, settings.host.strip("[]")}

    def check_host(self, headers: Headers) -> None:
        """Without a token, answer only requests that are addressed to this machine.

        Otherwise a web page could make its own host name resolve to 127.0.0.1 and read the responses
        in the browser of a user (DNS rebinding). A request with two hosts is malformed: programs on
        its way could interpret it differently.
        """
        if len(headers.getlist("host")) > 1:
            raise HTTPError(400, "the request has several Host headers; send one.")
        if self._token is None and _without_port(headers.get("host", "")) not in self._hosts:
            raise HTTPError(
                403,
                f"this server answers requests for {', '.join(sorted(self._hosts))} only; to use "
                "another name, start it with a token.",
            )

    def check_token(self, headers: Headers, access: AccessLevel) -> None:
        """Reject a request without the token if the server has one; changes always need a token."""
        if access == "admin" and self._token is None:
            raise HTTPError(403, "this needs a token; start the server with PLACKETT_TOKEN or --token.")
        if access == "open" or self._token is None:
            return
        scheme, _, token = headers.get("authorization", "").partition(" ")
        # The time to compare digests depends neither on where tokens differ nor on their length.
        is_equal = hmac.compare_digest(_digest(token.strip()), self._token)
        if scheme.lower() != "bearer" or not is_equal:
            raise HTTPError(401, "send the server's token: Authorization: Bearer ...", {"www-authenticate": "Bearer"})


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", errors="surrogateescape")).digest()


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0].lower() if ":" in host else host.lower()


class BodyReader:
    """Receives bodies within limits on size, time and the memory of all bodies together."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._unread = 0

    async def read(self, request: Request) -> bytes:
        """The whole body; raises :class:`HTTPError` or Starlette's ClientDisconnect."""
        try:
            return await asyncio.wait_for(self._read(request), self._limits.seconds)
        except asyncio.TimeoutError:
            raise HTTPError(
                408, f"the body was not received within {self._limits.seconds:g} seconds.", {"connection": "close"}
            ) from None

    async def _read(self, request: Request) -> bytes:
        limit = self._limits.body
        length = request.headers.get("content-length", "")
        if length.isdigit() and int(length) > limit:
            await self._refuse_large(request.stream(), f"{length} bytes")
        chunks: list[bytes] = []
        size = 0
        stream = request.stream()
        try:
            async for chunk in stream:
                size += len(chunk)
                self._unread += len(chunk)
                if size > limit:
                    chunks.clear()
                    await self._refuse_large(stream, "more")
                if self._unread > _MAX_UNREAD_BODIES * limit:
                    raise too_busy("too many large requests at a time")
                chunks.append(chunk)
        finally:
            self._unread -= size
        return b"".join(chunks)

    async def _refuse_large(self, stream: AsyncIterator[bytes], size: str) -> None:
        # Read on: a client that is still sending would see a broken connection instead of the reason.
        with contextlib.suppress(asyncio.TimeoutError, ClientDisconnect):
            await asyncio.wait_for(_drain(stream), _DRAIN_SECONDS)
        raise HTTPError(
            413,
            f"a body may have {self._limits.body} bytes, this one has {size}; send fewer lists "
            "at a time, or the compact form (application/octet-stream).",
            {"connection": "close"},
        )


async def _drain(stream: AsyncIterator[bytes]) -> None:
    size = 0
    async for chunk in stream:
        size += len(chunk)
        if size >= _DRAIN_BYTES:
            return
