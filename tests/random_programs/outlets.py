"""Random views and topics of the nodes there are."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from random_programs.program import Operation, Outlet
from random_programs.shapes import ARRAY, STRUCT, Shape

_TOPIC_KEYS = {"int", "string", "bigint", "smallint", "tinyint", "boolean", "date", "timestamp"}


def make_outlets(
    dice: random.Random, operations: Sequence[Operation], shapes: Mapping[str, Shape], reads: Sequence[str]
) -> list[Outlet]:
    """A view or a topic of each node that nobody uses, and of some others."""
    used = {name for operation in operations for name in operation.inputs}
    made = []
    for operation in operations:
        if operation.name not in used or dice.random() < 0.3:
            made.append(_outlet(dice, operation.name, shapes[operation.name]))
    if not made or dice.random() < 0.2:
        made.append(_view(dice, reads[-1], shapes[reads[-1]]))
    return made


def _outlet(dice: random.Random, name: str, shape: Shape) -> Outlet:
    return (_topic(dice, name, shape) if dice.random() < 0.3 else None) or _view(dice, name, shape)


def _view(dice: random.Random, name: str, shape: Shape) -> Outlet:
    keys = [one for one in ("k", "g") if one in shape.columns]
    ordered = shape.apart is not None if shape.retracts else shape.receipt
    key = (dice.choice(keys),) if keys and not shape.table and ordered and dice.random() < 0.4 else None
    return Outlet(f"v-{name}", "view", name, key)


def _topic(dice: random.Random, name: str, shape: Shape) -> Outlet | None:
    if {STRUCT, ARRAY} & set(shape.columns.values()):
        return None
    if not shape.table and not shape.retracts:
        return Outlet(f"d-{name}", "topic", name, None)
    key = shape.key if shape.table else tuple(one for one in ("k",) if one in shape.columns)
    fits = key and not shape.hidden_key and all(shape.columns[part] in _TOPIC_KEYS for part in key)
    return Outlet(f"d-{name}", "topic", name, key) if fits and (shape.table or shape.apart is not None) else None
