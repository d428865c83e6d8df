"""Which columns are needed where, and a hash per stateful node and per view: whether its state, its rows are still good.

Both follow the columns down the graph: a column of a topic that no one reads may come and go, and a `select` may gain a
column, without touching the state of a node that does not use it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from riverrun.flow.operators.ends import End, ViewEnd
from riverrun.flow.operators.node import Columns, Node, canonical


def fingerprints(nodes: Sequence[Node]) -> dict[str, str]:
    """For each stateful node, by id, the hash of its computation and of everything below it."""
    found: dict[tuple[str, Columns], str] = {}

    def of(node: Node, wanted: Columns) -> str:
        # A stateful node keeps all of its columns, whoever reads them.
        wanted = frozenset(node.schema) if node.stateful else wanted
        if (node.id, wanted) not in found:
            below = [of(part, columns) for part, columns in zip(node.inputs, node.needs(wanted), strict=True)]
            found[node.id, wanted] = _hash(node, wanted, below)
        return found[node.id, wanted]

    return {node.id: of(node, frozenset()) for node in nodes if node.stateful}


def view_fingerprints(views: Sequence[ViewEnd]) -> dict[str, str]:
    """For each view, by id, the hash of its key, its store and of what lies between it and the stateful nodes that feed it."""

    def of(node: Node, wanted: Columns) -> str:
        if node.stateful:
            return node.id  # it has a fingerprint of its own
        return _hash(
            node, wanted, [of(part, needs) for part, needs in zip(node.inputs, node.needs(wanted), strict=True)]
        )

    found = {}
    for view in views:
        columns = canonical((*view.node.schema, *view.key))
        text = f"{columns}|{of(view.node, frozenset(view.node.schema))}"
        if view.to is not None:
            text += f"|{view.to.public}|{canonical(view.partition_by)}"
        found[view.id] = hashlib.sha256(text.encode()).hexdigest()
    return found


def _hash(node: Node, wanted: Columns, below: Sequence[str]) -> str:
    settings = canonical(tuple(node.settings(wanted).items()))
    return hashlib.sha256("|".join([node.kind, settings, *below]).encode()).hexdigest()


def needed(nodes: Sequence[Node], ends: Sequence[End]) -> dict[str, tuple[str, ...]]:
    """For each node, by id, the columns its readers need of it: in its order, then hidden ones by name."""
    wanted: dict[str, Columns] = {node.id: frozenset() for node in nodes}
    for end in ends:
        wanted[end.node.id] = frozenset(end.node.schema)
    for node in reversed(nodes):
        if node.stateful and not node.hands_on_wanted:
            wanted[node.id] = frozenset(node.schema)
        for part, columns in zip(node.inputs, node.needs(wanted[node.id]), strict=True):
            keyed = (name for name in part.key if name in part.schema)
            wanted[part.id] |= columns | frozenset(keyed)
    return {
        node.id: (
            *(name for name in node.schema if name in wanted[node.id]),
            *sorted(name for name in wanted[node.id] if name not in node.schema),
        )
        for node in nodes
    }
