"""Errors as HTTP has them: a status, and {"error": what happened, "hint": what to do}."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from riverrun.errors import (
    Conflict,
    Corrupt,
    Fenced,
    Invalid,
    NotFound,
    OutOfRange,
    RecordTooLarge,
    RiverrunError,
    TimedOut,
    Transient,
)
from riverrun.serve.answers import answer

# The first that fits; what is left are parts that are not installed, closed, or of a newer format.
_STATUS: tuple[tuple[type[RiverrunError], int], ...] = (
    (RecordTooLarge, 413),
    (Invalid, 400),
    (NotFound, 404),
    (OutOfRange, 410),
    (Conflict, 409),
    (Fenced, 409),
    (TimedOut, 504),
    (Transient, 503),
    (Corrupt, 500),
)
_UNAVAILABLE = 503
_AGAIN = {429: "1", 503: "2", 504: "1"}  # seconds after which to try once more


class Refused(RiverrunError):
    """A request that HTTP has its own status for."""

    def __init__(self, status: int, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status


def problem(status: int, message: str, hint: str | None = None, headers: Mapping[str, str] | None = None) -> Response:
    """The answer that says what is wrong."""
    again = {"retry-after": _AGAIN[status]} if status in _AGAIN else {}
    return answer(document(message, hint), status, {**again, **(headers or {})})


def document(message: str, hint: str | None = None) -> dict[str, Any]:
    """What a problem says, without its status."""
    return {"error": message, **({"hint": hint} if hint else {})}


def answer_error(error: RiverrunError) -> Response:
    """The answer to a request that failed this way."""
    if isinstance(error, Refused):
        return problem(error.status, error.message, error.hint)
    return problem(status_of(error), error.message, error.hint)


def status_of(error: RiverrunError) -> int:
    """The status that belongs to an error."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), _UNAVAILABLE)


def answer_http_error(error: HTTPException) -> Response:
    """The answer where no route fits."""
    hints = {404: "GET /openapi.json says what there is", 405: "GET /openapi.json says what can be done here"}
    said = {404: "there is nothing at this address", 405: "this cannot be done here"}
    return problem(
        error.status_code, said.get(error.status_code, str(error.detail)), hints.get(error.status_code), error.headers
    )
