"""What a client is told when its request is refused."""

from __future__ import annotations

from http import HTTPStatus


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
