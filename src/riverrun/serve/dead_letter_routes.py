"""`/dead-letters`: what queues and alerts could not deliver, and sending it again."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from riverrun.serve.answers import answer
from riverrun.serve.backend import Backend
from riverrun.serve.documents import DeadLetterDocument, ResentDocument, answers


def dead_letter_routes(backend: Backend) -> APIRouter:
    """The routes below `/dead-letters`."""
    routes = APIRouter(tags=["topics"])
    letters = backend.river.dead_letters

    @routes.get("/dead-letters", response_model=list[DeadLetterDocument], responses=answers())
    async def waiting() -> Response:
        """Every topic of dead letters: of which queue or alert, how many wait, of how many in all."""
        return answer([asdict(one) for one in await backend.read(letters.topics)])

    @routes.post("/dead-letters/{topic}", status_code=202, response_model=ResentDocument, responses=answers(404))
    async def send_again(
        topic: Annotated[str, Path(description="The topic of dead letters.", max_length=200)],
    ) -> Response:
        """Send those that wait again, once: to the workers of the queue, or to the alert's address by its flow's run."""
        return answer(asdict(await backend.append(letters.send_again, topic)), 202)

    return routes
