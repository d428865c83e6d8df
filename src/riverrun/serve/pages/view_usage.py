"""What a view has, and how programs ask for it: over HTTP, in SQL, from Python."""

from __future__ import annotations

import shlex
from urllib.parse import quote

from riverrun import ddl
from riverrun.serve.pages.markup import Html, join, tag
from riverrun.serve.pages.shell import table
from riverrun.serve.pages.table_cells import heads
from riverrun.views import ViewSpec

_PYTHON = """import riverrun as rr

with rr.River("./river") as river:
    rows = river.view({name}).rows(limit=10)"""


def describe_usage(spec: ViewSpec, host: str) -> Html:
    """The columns, and examples with the names of this view; `host` is by which the page was asked for."""
    return join(_columns(spec), tag("h2", "How to query this"), *(_example(*one) for one in _examples(spec, host)))


def _columns(spec: ViewSpec) -> Html:
    rows = [
        tag(
            "tr",
            tag("th", column.name, scope="row"),
            tag("td", tag("code", str(column.type)), class_="wide"),
            tag("td", "key" if column.name in spec.key else ""),
        )
        for column in ddl.parse(spec.shown_schema)
    ]
    return join(tag("h2", "Columns"), table("What a row has", heads(["Column", "Type", "Used as"]), rows))


def _examples(spec: ViewSpec, host: str) -> list[tuple[str, str]]:
    address = f"http://{host}/views/{quote(spec.name, safe='')}"
    name = spec.name.replace('"', '""')
    sql = f'select * from "{name}" limit 10'
    at_home = [
        ("Its changes as they happen", f"curl -N '{address}/changes'"),
        ("SQL, on the command line", f"riverrun view query {shlex.quote(sql)}"),
    ]
    searched = [
        ("A search, on the command line", f"riverrun view search {shlex.quote(spec.name)} 'rain* AND NOT boots'")
    ]
    return [
        ("Rows, over HTTP", f"curl '{address}?limit=10'"),
        *(at_home if spec.to is None else searched if spec.is_searched else ()),
        ("Python", _PYTHON.format(name=repr(spec.name))),
    ]


def _example(title: str, code: str) -> Html:
    return tag("div", tag("p", title, class_="note"), tag("pre", tag("code", code), tabindex="0"))
