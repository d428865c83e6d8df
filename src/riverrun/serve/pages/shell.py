"""What every page has: head, navigation, the flow that is looked at and how it is, and regions that change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode

from riverrun import __version__
from riverrun.serve.pages.flow_health import judge
from riverrun.serve.pages.history import FlowHistory, History
from riverrun.serve.pages.markup import Content, Html, join, tag

ROOT = "/ui"
PAGES = (
    ("Flow", "/"),
    ("Time", f"{ROOT}/time"),
    ("Topics", f"{ROOT}/topics"),
    ("Views", f"{ROOT}/views"),
    ("Groups", f"{ROOT}/groups"),
    ("Captures", f"{ROOT}/captures"),
    ("Ledger", f"{ROOT}/ledger"),
    ("Epochs", f"{ROOT}/epochs"),
    ("History", f"{ROOT}/history"),
    ("Alerts", f"{ROOT}/alerts"),
    ("Rules", f"{ROOT}/rules"),
)


@dataclass(frozen=True)
class Asked:
    """A request for a page: its address, its query, and the names within the address."""

    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    is_live: bool = False  # asked again and again, for what has changed
    may_change: bool = True  # whether the one who asks may do more than look
    host: str = "127.0.0.1:8400"  # by which the server was asked
    is_posted: bool = False  # with a form of ours, which another site cannot send

    def get(self, name: str, default: str = "") -> str:
        return self.query.get(name, default)

    def whole(self, name: str, default: int, most: int) -> int:
        """A number from 0 to `most`; anything else is the default."""
        text = self.get(name)
        if not text.isascii() or not text.isdigit():
            return default
        return min(int(text), most) if len(text) <= len(str(most)) else most

    def link(self, **changed: str | int | None) -> str:
        """This address with some of its query changed; None leaves a part out."""
        query = {**self.query, **{name: None if value is None else str(value) for name, value in changed.items()}}
        kept = {name: value for name, value in query.items() if value is not None}
        return f"{self.path}?{urlencode(kept)}" if kept else self.path


@dataclass(frozen=True)
class Drawn:
    """A page: its title, and its parts by id, in order. Parts whose HTML has changed are sent again, but for `still`:
    a question that somebody asked, and its answer, stay as they were given."""

    title: str
    regions: dict[str, Html]
    every: float = 1.0  # seconds between two looks
    still: tuple[str, ...] = ()


Draw = Callable[[History, Asked], Drawn]


def address(kind: str, name: str) -> str:
    """Where a topic, a view or a group has its page."""
    return f"{ROOT}/{kind}/{quote(name, safe='')}"


def choose_flow(history: History, asked: Asked) -> FlowHistory | None:
    """The flow that is looked at: the one that was asked for, one that runs here, or the first."""
    flows = history.flows
    here = [run.name for run in history.backend.runs]
    names = [name for name in (asked.get("flow"), *here, *sorted(flows)) if name in flows]
    return flows[names[0]] if names else None


def document(drawn: Drawn, history: History, asked: Asked) -> Html:
    """The whole page."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{drawn.title} · Riverrun"),
        tag("link", rel="icon", href=f"{ROOT}/static/icon.svg", type="image/svg+xml"),
        tag("link", rel="stylesheet", href=f"{ROOT}/static/style.css"),
        tag("script", type="module", src=f"{ROOT}/static/live.js"),
    )
    regions = [tag("div", html, id=name, data_live=name not in drawn.still) for name, html in drawn.regions.items()]
    body = tag(
        "body",
        tag("a", "Skip to content", href="#content", class_="skip"),
        _header(drawn, history, asked),
        tag("p", "", id="connection", role="status", class_="connection", hidden=True),
        tag("main", tag("h1", drawn.title), *regions, id="content", tabindex="-1"),
        tag(
            "footer",
            f"Riverrun {__version__} · all times UTC · ",
            tag("a", "API", href="/openapi.json"),
            " · ",
            tag("a", "Metrics", href="/metrics"),
            tag("noscript", " · Without JavaScript this page stays as it is: reload it for news."),
        ),
    )
    return join(Html("<!doctype html>\n"), tag("html", head, body, lang="en"))


def summary(history: History, asked: Asked) -> Html:
    """The flow in one line: its name, how it is, why, and what helps."""
    flow = choose_flow(history, asked)
    if history.trouble:
        return notice("stopped", "The river cannot be read", history.trouble)
    health = judge(flow.status if flow else None)
    return tag(
        "p",
        tag("strong", flow.name) if flow else None,
        " " if flow else None,
        health.badge(),
        " ",
        tag("span", health.said, class_="said"),
        join(" ", tag("code", health.command)) if health.command else None,
        class_="summary",
    )


def _header(drawn: Drawn, history: History, asked: Asked) -> Html:
    flow = choose_flow(history, asked)
    suffix = f"?{urlencode({'flow': flow.name})}" if flow and len(history.flows) > 1 else ""
    links = [
        tag("li", tag("a", name, href=path + suffix, aria_current="page" if _is_at(path, asked.path) else None))
        for name, path in PAGES
    ]
    return tag(
        "header",
        tag("a", "Riverrun", href="/" + suffix, class_="brand"),
        tag("nav", tag("ul", *links), aria_label="Pages"),
        _choice(history, asked, flow.name) if flow and len(history.flows) > 1 else None,
    )


def _choice(history: History, asked: Asked, current: str) -> Html:
    options = [tag("option", name, value=name, selected=name == current) for name in sorted(history.flows)]
    return tag(
        "form",
        tag("label", "Flow ", tag("select", *options, name="flow")),
        tag("button", "Show", type="submit"),
        method="get",
        action=asked.path,
        class_="choice",
    )


def _is_at(path: str, here: str) -> bool:
    return here == path or (path != "/" and here.startswith(f"{path}/"))


def notice(kind: str, title: str, *said: Content) -> Html:
    """Something to know, with what to do about it."""
    return tag("div", tag("strong", title), " ", *said, class_=f"notice {kind}", role="note")


def empty(said: str, command: str | None = None) -> Html:
    """Nothing to show, and how there would be something."""
    return tag("p", said, join(" — ", tag("code", command)) if command else None, class_="empty")


def table(caption: str, heads: Iterable[Content], rows: Iterable[Html], **attributes: object) -> Html:
    """A table that scrolls within itself on a narrow screen."""
    cells = [
        head if isinstance(head, Html) and head.startswith("<th") else tag("th", head, scope="col") for head in heads
    ]
    whole = tag(
        "table",
        tag("caption", caption, class_="quiet"),
        tag("thead", tag("tr", *cells)),
        tag("tbody", *rows),
        **attributes,
    )
    return tag("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)


def figure(label: str, value: Content, note: Content = None, kind: str = "") -> Html:
    """A large number with what it is."""
    return tag(
        "div",
        tag("dt", label),
        tag("dd", value, tag("small", note) if note is not None else None),
        class_=f"figure {kind}".rstrip(),
    )


def figures(*each: Html | None) -> Html:
    """Several large numbers beside each other."""
    return tag("dl", *each, class_="figures")


def swatch(part: str) -> Html:
    """The colour of a part of a bar, for the words beside it."""
    square = tag("rect", width=16, height=16, class_=f"part {part}")
    return tag("svg", square, viewBox="0 0 16 16", width=16, height=16, class_="swatch", aria_hidden="true")
