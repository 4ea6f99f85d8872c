"""Who may ask: a token in the request, and for servers without one, this machine only."""

from __future__ import annotations

import hashlib
import hmac

from plackett.serving.server.http import Request
from plackett.serving.server.refusals import Refusal
from plackett.serving.server.settings import Settings

_UNAUTHORISED, _FORBIDDEN = 401, 403
_LOCAL = ("localhost", "127.0.0.1", "::1")


class Access:
    """Checks requests against the settings of a server."""

    def __init__(self, settings: Settings) -> None:
        self._token = None if settings.token is None else _digest(settings.token)
        self._hosts = {*_LOCAL, settings.host.strip("[]")}

    def check_host(self, request: Request) -> None:
        """Without a token, answer only requests that mean this machine.

        A page of somebody else's can have its own name lead to 127.0.0.1 and then read what the
        browser gets from there; such requests carry that page's name.
        """
        host = request.headers.get("host", "")
        if self._token is None and _without_port(host) not in self._hosts:
            raise Refusal(
                _FORBIDDEN,
                f"this server answers requests for {', '.join(sorted(self._hosts))} only; to have "
                "it under another name, start it with a token.",
            )

    def check_token(self, request: Request) -> None:
        """Refuse a request without the token, if there is one."""
        if self._token is None:
            return
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        # In a time that depends neither on where they differ nor on how long they are.
        right = hmac.compare_digest(_digest(given.strip()), self._token)
        if kind.lower() != "bearer" or not right:
            raise Refusal(
                _UNAUTHORISED,
                "send the server's token: Authorization: Bearer ...",
                {"www-authenticate": "Bearer"},
            )

    def check_admin(self, request: Request) -> None:
        """Refuse to change anything for clients that are not known."""
        if self._token is None:
            raise Refusal(
                _FORBIDDEN,
                "this needs a token; start the server with PLACKETT_TOKEN or --token.",
            )
        self.check_token(request)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", errors="surrogateescape")).digest()


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0].lower() if ":" in host else host.lower()
