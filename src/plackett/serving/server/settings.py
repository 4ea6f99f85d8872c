"""What a server is started with: where it listens, who may ask, and how much.

What a client is told when its request is refused.
"""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, field
from http import HTTPStatus

from plackett.base.errors import UsageError

LEAST_TOKEN = 16
"""Characters of a token; a shorter one can be guessed."""


@dataclass(frozen=True)
class Limits:
    """How much one client may ask for.

    Parameters
    ----------
    body
        Bytes of a body.
    documents
        Documents of a list.
    lists
        Lists of a batch.
    concurrency
        Requests that are scored or wait for it; further ones are told to come back.
    seconds
        For receiving a request, and again for answering it.
    explained
        Documents of a request whose features' contributions are asked for.
    """

    body: int = 8 << 20
    documents: int = 2000
    lists: int = 64
    concurrency: int = 64
    seconds: float = 10.0
    explained: int = 200

    def check(self) -> None:
        """Refuse what cannot be meant."""
        for name, value in vars(self).items():
            if not value > 0:
                raise UsageError(f"the limit on {name} must be above 0, got {value}.")


@dataclass(frozen=True)
class Settings:
    """Where a server listens and whom it answers.

    Parameters
    ----------
    host, port
        Address to listen at; port 0 is any that is free.
    token
        What clients must send as ``Authorization: Bearer ...``; None lets everybody on this
        machine ask, and is refused for addresses that other machines reach.
    limits
        How much one client may ask for.
    threads
        Threads that read and score.
    watch
        Seconds between looks at the models' folders; 0: never.
    grace
        Seconds that requests under way get when the server is told to stop.
    log_requests
        Write a line for each request.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = field(default=None, repr=False)
    limits: Limits = Limits()
    threads: int = field(default_factory=lambda: os.cpu_count() or 1)
    watch: float = 2.0
    grace: float = 10.0
    log_requests: bool = True

    def check(self) -> None:
        """Refuse what is unsafe or cannot be meant."""
        self.limits.check()
        if not 0 <= self.port <= 0xFFFF:
            raise UsageError(f"a port is a number from 0 to 65535, got {self.port}.")
        if self.threads < 1 or self.watch < 0 or self.grace < 0:
            raise UsageError("threads must be at least 1, watch and grace at least 0.")
        if self.token is not None:
            _check_token(self.token)
        elif not self.loopback:
            raise UsageError(
                f"{self.host} can be reached from other machines: set a token that clients must "
                "send (the environment variable PLACKETT_TOKEN, or --token), or listen at "
                "127.0.0.1."
            )

    @property
    def loopback(self) -> bool:
        """Whether only this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:  # a name, which may stand for any address
            return False


def _check_token(token: str) -> None:
    if len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(
            f"a token needs at least {LEAST_TOKEN} printable ASCII characters without blanks; "
            "make one with: python -c 'import secrets; print(secrets.token_urlsafe())'"
        )


class Refusal(Exception):  # noqa: N818 - a refused request is no error of the server
    """A request that gets no answer but a reason.

    Parameters
    ----------
    status
        Of the response.
    detail
        What was found, what is allowed, what to do; never what the documents hold.
    headers
        Of the response, beside the usual ones.
    """

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = headers or {}

    def to_dict(self) -> dict[str, object]:
        """The body of the response, in the form of RFC 9457."""
        return {
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }
