"""What answers look like, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Open(BaseModel):
    """More may be in it than is said here."""

    model_config = ConfigDict(extra="allow")


class Problem(BaseModel):
    """What went wrong, and what to do about it."""

    error: str
    hint: str | None = None


class Accepted(BaseModel):
    """Where the rows are: everything before the position has been written."""

    position: str = Field(examples=["orders@0:17,1:4"])
    rows: int


class TopicSummary(Open):
    """A topic."""

    name: str


class TopicDescription(Open):
    """A topic, and the groups that read it."""

    name: str
    position: str
    groups: list[dict[str, Any]]


class DeadLetterDocument(BaseModel):
    """A topic of dead letters."""

    topic: str
    kind: str
    source: str
    group: str | None
    rows: int
    waiting: int
    asked: int


class ResentDocument(BaseModel):
    """Dead letters on their way again; those `gone` retention has removed from their source."""

    topic: str
    rows: int
    gone: int


class ViewSummary(Open):
    """A view: what it is, and how far."""

    name: str
    rows: int | None  # null: its store does not answer
    position: str
    cursor: str
    key: list[str]
    flow: str


class FlowDocument(Open):
    """A flow: where it is."""

    flow: str
    here: bool


class HealthDocument(Open):
    """Whether the server works."""

    status: str


def answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The statuses that an operation may answer with, beside the one when all is well."""
    meanings = {
        400: "Something in the request cannot be accepted",
        401: "A token is needed, or this one is not known",
        403: "The token does not have the role, or the request comes from a page of another site",
        404: "There is no such thing; the hint has the nearest name",
        408: "The body did not come in time",
        409: "A newer producer has taken over, or a flow writes this topic",
        410: "What was there is no longer kept",
        413: "The body or a row is too large",
        415: "The body is compressed in a way that is not accepted",
        421: "The server does not go by that name",
        429: "Too much at once; Retry-After says when to come back",
        500: "The server failed at this",
        503: "Not now; Retry-After says when to come back",
        504: "It did not happen in the given time",
    }
    always = (401, 403, 421, 500, 503)
    return {status: {"model": Problem, "description": meanings[status]} for status in sorted({*always, *statuses})}
