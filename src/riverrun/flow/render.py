"""A flow as a picture (Mermaid) and as a JSON document; both are made from the same nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from riverrun.flow.operators.ends import AlertEnd, End
from riverrun.flow.operators.node import Node
from riverrun.flow.operators.source import Source

_LONGEST = 60


def document(name: str, nodes: Sequence[Node], ends: Sequence[End], names: Mapping[str, str]) -> dict[str, Any]:
    """Nodes, edges and ends as plain data; `names` are those of nodes, by id."""
    return {
        "flow": name,
        "nodes": [_described(node, names.get(node.id)) for node in nodes],
        "edges": [
            *({"from": below.id, "to": node.id} for node in nodes for below in node.inputs),
            *({"from": end.node.id, "to": end.id} for end in ends),
        ],
        "ends": [_end(end) for end in ends],
    }


def _described(node: Node, name: str | None) -> dict[str, Any]:
    return {
        "id": node.id,
        "name": name,
        "kind": node.kind,
        "word": node.word or node.kind,
        "label": node.label,
        "table": node.is_table,
        "stateful": node.stateful,
        "retracts": node.retracts,
        "schema": {name: None if known is None else str(known) for name, known in node.schema.columns},
        "key": list(node.key),
        "time": node.time,
        "delay": node.delay,
        "file": node.place.file,
        "line": node.place.line,
    }


def _end(end: End) -> dict[str, Any]:
    described: dict[str, Any] = {"id": end.id, "kind": end.kind, "name": end.name, "node": end.node.id}
    if not isinstance(end, AlertEnd):
        described["key"] = list(end.key)
    return {**described, "file": end.place.file, "line": end.place.line}


def mermaid(nodes: Sequence[Node], ends: Sequence[End], names: Mapping[str, str]) -> str:
    """A chart from left to right: topics are cylinders, stateful nodes boxes, others rounded, ends double-edged."""
    short = {node.id: f"n{number}" for number, node in enumerate(nodes)}
    lines = ["flowchart LR"]
    for node in nodes:
        opening, closing = ("[(", ")]") if isinstance(node, Source) else ("[", "]") if node.stateful else ("(", ")")
        lines.append(f"  {short[node.id]}{opening}{_text(_called(node, names))}{closing}")
    for number, end in enumerate(ends):
        short[end.id] = f"e{number}"
        lines.append(f"  e{number}[[{_text(f'{end.kind} {end.name}')}]]")
    for node in nodes:
        lines.extend(f"  {short[below.id]} --> {short[node.id]}" for below in node.inputs)
    lines.extend(f"  {short[end.node.id]} --> {short[end.id]}" for end in ends)
    return "\n".join(lines) + "\n"


def _called(node: Node, names: Mapping[str, str]) -> str:
    return f"{names[node.id]}: {node.label}" if node.id in names else node.label


def _text(label: str) -> str:
    one_line = " ".join(label.split())
    shown = one_line if len(one_line) <= _LONGEST else one_line[: _LONGEST - 1] + "…"
    for character, escape in (("&", "#amp;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;")):
        shown = shown.replace(character, escape)
    return f'"{shown}"'
