"""The pages under their addresses. A page is asked for as HTML, or as the stream of its changes: same address."""

from __future__ import annotations

import mimetypes
from dataclasses import replace
from importlib.resources import files
from urllib.parse import parse_qsl, quote

from fastapi import FastAPI, Request
from starlette.responses import RedirectResponse, Response

from riverrun.errors import NotFound, RiverrunError
from riverrun.serve.backend import Backend
from riverrun.serve.body import receive_body
from riverrun.serve.caller import caller_of
from riverrun.serve.flows import Flows
from riverrun.serve.guard import QUERIES
from riverrun.serve.pages import (
    alerts_page,
    captures_page,
    epochs_page,
    flow_page,
    group_page,
    groups_page,
    history_page,
    ledger_page,
    live,
    rules_page,
    time_page,
    topic_page,
    topics_page,
    view_page,
    views_page,
)
from riverrun.serve.pages.control import PageControl, keep_local
from riverrun.serve.pages.group_actions import find_action
from riverrun.serve.pages.history import History
from riverrun.serve.pages.markup import join, tag
from riverrun.serve.pages.rule_actions import TRY, change_rules
from riverrun.serve.pages.shell import ROOT, Asked, Draw, Drawn, document, notice
from riverrun.serve.problems import Refused, status_of
from riverrun.serve.sse import EventStream
from riverrun.serve.tokens import ADMIN

_GROUP = f"{ROOT}/groups/{{name}}"
_DRAWN: dict[str, Draw] = {
    "/": flow_page.draw,
    f"{ROOT}/time": time_page.draw,
    f"{ROOT}/topics": topics_page.draw,
    f"{ROOT}/topics/{{name}}": topic_page.draw,
    f"{ROOT}/views": views_page.draw,
    f"{ROOT}/views/{{name:path}}": view_page.draw,
    f"{ROOT}/groups": groups_page.draw,
    _GROUP: group_page.draw,
    f"{ROOT}/captures": captures_page.draw,
    f"{ROOT}/ledger": ledger_page.draw,
    f"{ROOT}/epochs": epochs_page.draw,
    f"{ROOT}/history": history_page.draw,
    f"{ROOT}/alerts": alerts_page.draw,
    rules_page.RULES: rules_page.draw,
}
_HTML = "text/html; charset=utf-8"
_SECONDS = 300  # that a browser may keep scripts and styles
_FORM = 1 << 16  # bytes that a form may have


def dashboard(app: FastAPI, backend: Backend, flows: Flows, control: PageControl | None = None) -> None:
    """Add the pages to the app of a river, and take samples for them for as long as it is served. With a control, its
    button is on all of them."""
    history = History(backend, Flows(backend))  # its own: samples must not make what the API answers older
    backend.beside.append(history.keep)
    app.state.history = history

    def add(path: str, draw: Draw) -> None:
        async def page(request: Request) -> Response:
            is_live = "text/event-stream" in request.headers.get("accept", "")
            asked = _asked(request, is_live)
            if is_live:
                ticket = backend.feeds.admit(f"{caller_of(request).account}, pages")
                return EventStream(lambda: live.changes(history, draw, asked), ticket)
            return await backend.read(_render, history, draw, asked)

        app.add_api_route(path, page, methods=["GET"], include_in_schema=False, name=f"page {path}")

    async def press(request: Request) -> Response:
        assert control is not None
        try:
            await backend.read(control.press)
            await backend.read(history.anew)
        except RiverrunError as error:
            return await backend.read(_refuse, history, Asked(_path(request)), error)
        return RedirectResponse(keep_local(request.query_params.get("back", "/")), 303)

    async def change_group(request: Request) -> Response:
        asked = _asked(request)
        try:
            async with receive_body(request, _FORM, backend.memory) as body:
                form = dict(parse_qsl(body.decode("utf-8", "replace")))
            action = find_action(asked.get("action"))
            await backend.read(action.press, backend.river, asked.name, form)
        except RiverrunError as error:
            return await backend.read(_refuse, history, asked, error)
        return RedirectResponse(f"{asked.path}?done={action.name}", 303)

    async def resend(request: Request) -> Response:
        asked = _asked(request)
        try:
            await backend.read(backend.river.dead_letters.send_again, asked.name)
        except RiverrunError as error:
            return await backend.read(_refuse, history, asked, error)
        return RedirectResponse(keep_local(asked.get("back", "/")), 303)

    async def query(request: Request) -> Response:
        """The page of all views with the answer to what was asked. Only a form of ours gets here: see `serve.guard`."""
        asked = _asked(request)
        try:
            async with receive_body(request, _FORM, backend.memory) as body:
                form = dict(parse_qsl(body.decode("utf-8", "replace")))
        except RiverrunError as error:
            return await backend.read(_refuse, history, asked, error)
        asked = replace(asked, query=form, is_posted=True)
        draw = control.on(views_page.draw) if control else views_page.draw
        return await backend.read(_render, history, draw, asked)

    async def rules(request: Request) -> Response:
        """Something done to a rule; or the page with what one would have found."""
        asked = _asked(request)
        try:
            async with receive_body(request, _FORM, backend.memory) as body:
                form = dict(parse_qsl(body.decode("utf-8", "replace")))
            if form.get("do") != TRY:
                await backend.read(change_rules, backend.river, form)
                return RedirectResponse(asked.path, 303)
        except RiverrunError as error:
            return await backend.read(_refuse, history, asked, error)
        asked = replace(asked, query=form, is_posted=True)
        draw = control.on(rules_page.draw) if control else rules_page.draw
        return await backend.read(_render, history, draw, asked)

    for path, draw in _DRAWN.items():
        add(path, control.on(draw) if control else draw)
    app.add_api_route(QUERIES, query, methods=["POST"], include_in_schema=False)
    if control:
        app.add_api_route(control.path, press, methods=["POST"], include_in_schema=False)
    app.add_api_route(rules_page.RULES, rules, methods=["POST"], include_in_schema=False)
    app.add_api_route(_GROUP, change_group, methods=["POST"], include_in_schema=False)
    app.add_api_route(ROOT + "/dead/{name}", resend, methods=["POST"], include_in_schema=False)
    app.add_api_route(ROOT + "/static/{name}", _static, methods=["GET"], include_in_schema=False)


def _asked(request: Request, is_live: bool = False) -> Asked:
    name = request.path_params.get("name", "")
    host = request.headers["host"]  # one of this server's: the guard has looked
    return Asked(_path(request), dict(request.query_params), name, is_live, ADMIN in caller_of(request).roles, host)


def _path(request: Request) -> str:
    """The address as it was sent: a slash within a name is still told from one between names."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    return quote(raw.decode("latin-1"), safe="/%!$&'()*+,;=:@~")


def _render(history: History, draw: Draw, asked: Asked) -> Response:
    try:
        drawn = draw(history.fresh(), asked)
    except RiverrunError as error:
        return _refuse(history, asked, error)
    return Response(document(drawn, history, asked), media_type=_HTML)


def _refuse(history: History, asked: Asked, error: RiverrunError) -> Response:
    status = error.status if isinstance(error, Refused) else status_of(error)
    said = join(error.message, tag("p", error.hint) if error.hint else None)
    drawn = Drawn("Not found" if status == 404 else "Not now", {"problem": notice("stopped", "", said)})
    return Response(document(drawn, history, asked), status, media_type=_HTML)


async def _static(name: str) -> Response:
    return Response(
        _file(name), media_type=mimetypes.guess_type(name)[0], headers={"cache-control": f"private, max-age={_SECONDS}"}
    )


def _file(name: str) -> bytes:
    folder = files("riverrun.serve.pages") / "static"
    if name not in {entry.name for entry in folder.iterdir()}:
        raise NotFound(f"there is no file {name!r}")
    return (folder / name).read_bytes()
