"""Random nodes over the nodes there are."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from random_programs.program import Operation, Program
from random_programs.shapes import ARRAY, STRUCT, Shape, joining
from random_programs.sql_maker import COMPARED, aggregations, condition, expression
from random_programs.values import FEW, MANY, NUMERIC

Shapes = Mapping[str, Shape]
Made = tuple[tuple[str, ...], dict[str, Any]] | None
"""The inputs and options of a node, if one can be made."""

WEIGHTS = {
    "where": 3,
    "select": 1,
    "with_columns": 2,
    "drop": 1,
    "union": 3,
    "dedupe": 3,
    "sample": 2,
    "apply": 2,
    "clock": 4,
    "match": 5,
    "percolate": 9,
    "group": 5,
    "latest": 4,
    "top": 5,
    "changes": 2,
    "versus": 4,
    "window": 9,
    "join_streams": 5,
    "lookup": 4,
    "as_of": 5,
    "join_tables": 5,
}
_PATTERNS = ["a b", "a -> b", "a b+ c", "a+ b", "a+? b", "a b?", "a (b | c) a", "permute(a, b)", "a !c -> b"]
_BOUNDS = [(-5, 5), (0, 10), (0, 0), (-10, 0), (2, 8), (-8, -2), (-3, 7)]


class NodeMaker:
    """Makes one node after the other."""

    def __init__(self, dice: random.Random, program: Program) -> None:
        self._dice, self._program = dice, program
        self._shapes: Shapes = {}

    def make(self, name: str, shapes: Shapes) -> Operation | None:
        """A node over some of the others; None if nothing was found."""
        self._shapes = shapes
        for _ in range(10):
            (kind,) = self._dice.choices(list(WEIGHTS), list(WEIGHTS.values()))
            maker: Callable[[str, Shape], Made] = getattr(self, f"_{kind}")
            for _ in range(5):
                input = self._any()
                made = maker(input, shapes[input])
                if made is not None:
                    inputs, options = made
                    return Operation(name, kind, inputs, options)
        return None

    def _any(self) -> str:
        """One of the nodes, rather a late one."""
        names = [name for name, shape in self._shapes.items() if not shape.last]
        return names[-1] if self._dice.random() < 0.4 else self._dice.choice(names)

    def _others(self, table: bool) -> list[str]:
        return [name for name, shape in self._shapes.items() if shape.table == table and not shape.last]

    def _where(self, input: str, shape: Shape) -> Made:
        asked = condition(self._dice, shape)
        return ((input,), {"condition": asked}) if asked else None

    def _select(self, input: str, shape: Shape) -> Made:
        kept = [name for name in shape.columns if name in shape.key or self._dice.random() < 0.8]
        return ((input,), {"items": {name: ("column", name) for name in kept}}) if kept else None

    def _with_columns(self, input: str, shape: Shape) -> Made:
        if not shape.of(*MANY) or "x" in shape.columns:
            return None
        return (input,), {"items": {"x": expression(self._dice, shape)}}

    def _drop(self, input: str, shape: Shape) -> Made:
        names = [name for name in shape.columns if name not in (*shape.key, "k", "g")]
        return ((input,), {"names": (self._dice.choice(names),)}) if names and len(shape.columns) > 1 else None

    def _union(self, input: str, shape: Shape) -> Made:
        fitting = [
            name
            for name in self._others(shape.table)
            if set(self._shapes[name].columns) == set(shape.columns)
            and (shape.table or (shape.timed and self._shapes[name].timed))
            and all(
                kind == self._shapes[name].columns[column]
                or {kind, self._shapes[name].columns[column]} <= {"tinyint", "smallint", "int", "bigint", "double"}
                for column, kind in shape.columns.items()
            )
        ]
        if not fitting or STRUCT in shape.columns.values() or ARRAY in shape.columns.values():
            return None
        return (input, self._dice.choice(fitting)), {}

    def _few(self, shape: Shape, most: int = 2) -> tuple[str, ...]:
        names = [name for name in ("k", "g", "_op") if name in shape.columns]
        return tuple(sorted(self._dice.sample(names, min(len(names), self._dice.randint(0, most)))))

    def _dedupe(self, input: str, shape: Shape) -> Made:
        on = self._few(shape)
        if shape.table or shape.retracts or not shape.receipt or not on:
            return None
        return (input,), {"on": on, "within": self._dice.choice([2, 5, 20])}

    def _sample(self, input: str, shape: Shape) -> Made:
        names = [name for name in ("k", "g") if shape.columns.get(name) in FEW]
        if shape.table or not names:
            return None
        return (input,), {"fraction": 0.5, "by": (self._dice.choice(names),)}

    def _apply(self, input: str, shape: Shape) -> Made:
        alone = self._program.partitions == 1 and (shape.apart is None or len(shape.apart) == 1)
        if shape.table or shape.retracts or shape.ties != "log" or not alone or "k" not in shape.columns:
            return None
        return (input,), {"by": ("k",), "output": f"k {shape.columns['k']}, n bigint"}

    def _clock(self, input: str, shape: Shape) -> Made:
        reads = [read for read in self._program.reads if read.name == input and not read.table and read.time]
        if not reads or "sent" not in shape.columns or reads[0].max_skew is not None or "k" not in shape.columns:
            return None
        alone = self._program.partitions == 1
        return (input,), {"occurred": "at", "sent": "sent", "by": ("k",), "one_partition": alone}

    def _match(self, input: str, shape: Shape) -> Made:
        measured = shape.of(*MANY)
        if shape.table or shape.retracts or shape.ties != "log" or not measured or not shape.of(*COMPARED):
            return None
        pattern = self._dice.choice(_PATTERNS)
        used = [name for name in "abc" if name in pattern.replace("permute", "")]
        asked = {name: condition(self._dice, shape) for name in used if self._dice.random() < 0.6}
        endless = "+" in pattern or "->" in pattern  # attempts would stay open for ever
        within = self._dice.choice([4, 10, 30] if endless else [None, 4, 10, 30])
        late = self._dice.choice(
            [("drop",), ("drop",), ("side", f"late-{len(self._shapes)}"), ("correct", self._dice.choice([5, 20]))]
        )
        return (input,), {
            "pattern": pattern,
            "define": asked,
            "by": self._few(shape, 1),
            "within": within,
            "after": self._dice.choice(["skip past last", "skip to next"]),
            "measured": self._dice.choice(measured),
            "late": late,
        }

    def _percolate(self, input: str, shape: Shape) -> Made:
        tables = [name for name in self._others(True) if {"q"} < set(self._shapes[name].columns)]
        # A full join may have a hidden part of its key.
        shapes = {name: self._shapes[name] for name in tables}
        tables = [name for name, one in shapes.items() if one.key and not one.hidden_key and not one.full]
        if shape.table or shape.retracts or "t" not in shape.columns or not tables:
            return None
        if any(name.endswith("_query") for name in shape.columns) or STRUCT in shape.columns.values():
            return None
        return (input, self._dice.choice(tables)), {"text": "t", "query": "q"}

    def _group(self, input: str, shape: Shape) -> Made:
        by = self._few(shape)
        return (input,), {"by": by, "aggregations": aggregations(self._dice, shape, False)}

    def _latest(self, input: str, shape: Shape) -> Made:
        key = self._few(shape)
        if shape.table or shape.retracts or shape.ties != "log" or not key:
            return None
        return (input,), {"key": key}

    def _top(self, input: str, shape: Shape) -> Made:
        names = shape.of(*MANY)
        if not names or "place" in shape.columns:
            return None
        by_place = (
            self._program.partitions == 1 and shape.ties == "log" and (shape.apart is None or len(shape.apart) == 1)
        )
        decided = not shape.hidden_key if shape.table else by_place
        order = tuple(
            (("column", name), self._dice.random() < 0.5, self._dice.random() < 0.5)
            for name in self._dice.sample(names, min(len(names), self._dice.randint(1, 2)))
        )
        return (input,), {
            "n": self._dice.randint(1, 4),
            "order": order,
            "per": self._few(shape, 1),
            "rank": self._dice.choice([None, "place"]),
            "ties": not decided or self._dice.random() < 0.3,
        }

    def _changes(self, input: str, shape: Shape) -> Made:
        taken = {"_op", "_before", "_after"} & set(shape.columns)
        return ((input,), {}) if shape.table and not shape.full and not taken else None

    def _versus(self, input: str, shape: Shape) -> Made:
        if shape.window is None or shape.window[0] not in ("tumbling", "hopping"):
            return None
        every = shape.window[1] if shape.window[0] == "tumbling" else shape.window[2]
        return (input,), {"earlier": every * self._dice.randint(1, 3)}

    def _window(self, input: str, shape: Shape) -> Made:
        if shape.table or not shape.timed:
            return None
        window = self._dice.choice(
            [
                ("tumbling", self._dice.choice([5, 10, 20])),
                ("tumbling", 10, self._dice.choice([3, 7])),
                ("hopping", *self._dice.choice([(10, 5), (12, 4), (10, 4)])),
                ("sliding", self._dice.choice([4, 10])),
                ("session", self._dice.choice([3, 5, 10])),
            ]
        )
        by = self._few(shape, 1)
        # Which of several rows of one time a sliding window belongs to, nothing says.
        kept = [name for name in shape.of(*MANY) if name not in by and name not in ("window_start", "window_end")]
        keep = tuple(kept[:1]) if window[0] == "sliding" and shape.apart and self._dice.random() < 0.5 else ()
        late = self._dice.choice(["drop", "drop", "side", "correct"])
        options = {"drop": (), "side": (f"late-{len(self._shapes)}",), "correct": (self._dice.choice([5, 20]),)}[late]
        return (input,), {
            "window": window,
            "by": by,
            "keep": keep,
            "late": (late, *options),
            "update": self._dice.random() < 0.4,
            "aggregations": aggregations(self._dice, shape, window[0] != "session"),
        }

    def _on(self, left: Shape, right: Shape, names: tuple[str, ...]) -> dict[str, str] | None:
        """Columns of the left for these of the right."""
        on: dict[str, str] = {}
        for theirs in names:
            wanted = right.columns[theirs]
            fitting = [
                mine
                for mine in (theirs, "k", "g")
                if mine in left.columns and mine not in on and _comparable(left.columns[mine], wanted)
            ]
            if not fitting:
                return None
            on[fitting[0] if self._dice.random() < 0.8 else self._dice.choice(fitting)] = theirs
        return on

    def _pair(self, kind: str, inputs: tuple[str, str], options: dict[str, Any]) -> Made:
        """A join, unless two of its columns would have the same name."""
        shapes = [self._shapes[name] for name in inputs]
        if any(STRUCT in one.columns.values() or not (one.table or one.timed) for one in shapes):
            return None
        if all(mine == theirs for mine, theirs in options["on"].items()):
            options["on"] = list(options["on"])
        compared = options["on"] if isinstance(options["on"], list) else options["on"].values()
        others = [name for name in shapes[1].columns if name not in compared]
        if others and self._dice.random() < 0.2:
            options["rename"] = {self._dice.choice(others): "renamed"}
        shown = [name for name, _, _ in joining(Operation("", kind, inputs, options), shapes).columns]
        return (inputs, options) if len(shown) == len(set(shown)) else None

    def _join_streams(self, input: str, shape: Shape) -> Made:
        other = self._dice.choice(self._others(False) or [input])
        right = self._shapes[other]
        on = self._on(shape, right, self._few(right))
        if shape.table or right.table or not on:
            return None
        how = self._dice.choice(["inner", "left", "right", "full"])
        names = f"late-{len(self._shapes)}-left", f"late-{len(self._shapes)}-right"
        late: tuple[Any, ...] = tuple(self._dice.choice([("drop",), ("drop",), ("side", name)]) for name in names)
        if how == "inner" and self._dice.random() < 0.6:
            late = (("correct", self._dice.choice([5, 20])),) * 2
        options = {"on": on, "within": self._dice.choice(_BOUNDS), "how": how, "late": late}
        return self._pair("join_streams", (input, other), options)

    def _lookup(self, input: str, shape: Shape) -> Made:
        tables = [name for name in self._others(True) if self._shapes[name].key and not self._shapes[name].hidden_key]
        if shape.table or not tables:
            return None
        other = self._dice.choice(tables)
        on = self._on(shape, self._shapes[other], self._shapes[other].key)
        if not on:
            return None
        return self._pair("lookup", (input, other), {"on": on, "how": self._dice.choice(["inner", "left"])})

    def _as_of(self, input: str, shape: Shape) -> Made:
        tables = [name for name in self._others(True) if self._shapes[name].versions]
        if shape.table or not tables or "_version" in shape.columns:
            return None
        other = self._dice.choice(tables)
        on = self._on(shape, self._shapes[other], self._shapes[other].key)
        if not on:
            return None
        late = self._dice.choice([("drop",), ("correct", 5), ("correct", 3600)])
        how = self._dice.choice(["inner", "left"])
        return self._pair("as_of", (input, other), {"on": on, "how": how, "late": late})

    def _join_tables(self, input: str, shape: Shape) -> Made:
        other = self._dice.choice(self._others(True) or [input])
        right = self._shapes[other]
        names = self._few(right)
        on = self._on(shape, right, names) if shape.table and right.table else None
        if not on:
            return None
        how = self._dice.choice(["inner", "left", "full"])
        return self._pair("join_tables", (input, other), {"on": on, "how": how})


def _comparable(one: str, other: str) -> bool:
    return one == other or (one in NUMERIC and other in NUMERIC)
