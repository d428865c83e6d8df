"""Every route with every role: who gets in, and who does not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import httpx
import pytest
from starlette.routing import BaseRoute, Route

from riverrun.river import River
from riverrun.serve.app import create_app
from riverrun.serve.tokens import line
from riverrun.settings import Settings
from serve.conftest import ORDERS, CommittedFlow, totals_of

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
OPEN = {"/healthz", "/readyz"}
ROLES = ("read", "write", "admin")
CALLERS = {
    "nobody": {},
    "a stranger": {"authorization": "Bearer secret-of-nobody"},
    **{role: {"authorization": f"Bearer secret-of-{role}"} for role in ROLES},
}
# What a role may do, and nothing else; an admin may do all.
ALLOWED = {
    "read": lambda method, path: method in ("GET", "HEAD", "OPTIONS") or (method, path) == ("POST", "/ui/views"),
    "write": lambda method, path: method == "POST" and path.startswith("/topics/"),
    "admin": lambda method, path: True,
}


@pytest.fixture
def guarded(tmp_path: Path, serve: Callable) -> Iterator[str]:
    tokens = ";".join(line(role, [role], f"secret-of-{role}") for role in ROLES)
    with River(tmp_path / "guarded", settings=Settings(tokens=tokens)) as river:
        river.topic("orders", ORDERS, fsync="os")
        CommittedFlow(river, totals_of()).commit(("ada", 1, 9.5, 1))
        yield serve(river=river).url


def routes_of(routes: Iterable[BaseRoute]) -> Iterator[Route]:
    """All of them, those of included routers, too."""
    for route in routes:
        included = getattr(route, "original_router", None)
        if included is not None:
            yield from routes_of(included.routes)
        else:
            assert isinstance(route, Route)
            yield route


def paths(river: River) -> list[str]:
    """The address of every route there is, with names that exist."""
    names = {"{topic}": "orders", "{view}": "totals", "{key:path}": "ada", "{name:path}": "totals"}
    found = set()
    for route in routes_of(create_app(river).routes):
        path = route.path.replace("/ui/topics/{name}", "/ui/topics/orders").replace("static/{name}", "static/live.js")
        for mark, name in names.items():
            path = path.replace(mark, name)
        found.add(re.sub(r"\{[^}]*\}", "orders", path))
    return sorted(found)


def test_every_route_with_every_method_and_every_role(river: River, guarded: str) -> None:
    every = paths(river)
    assert len(every) >= 20
    with httpx.Client(base_url=guarded, timeout=20) as client:

        def status(method: str, path: str, caller: str) -> int:
            # Streams would go on; their answer begins at once.
            with client.stream(method, path, headers=CALLERS[caller]) as response:
                return response.status_code

        for path in every:
            for method in METHODS:
                for caller in CALLERS:
                    got = status(method, path, caller)
                    what = f"{method} {path} by {caller}: {got}"
                    assert got != 500, what
                    if path in OPEN:
                        assert got in (200, 405), what
                    elif caller not in ALLOWED:
                        assert got == 401, what
                    elif not ALLOWED[caller](method, path):
                        assert got == 403, what
                    else:
                        assert got not in (401, 403), what


def test_what_the_document_says_of_refusals_is_so(river: River, guarded: str) -> None:
    document = httpx.get(f"{guarded}/openapi.json", headers=CALLERS["read"]).json()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert {"401", "403", "421"} <= set(operation["responses"]), f"{method} {path}"
