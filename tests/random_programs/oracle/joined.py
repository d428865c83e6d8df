"""What a join's result looks like: the key columns once, then the other columns of both sides."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

from random_programs.values import canonical

Values = Mapping[str, Any]


class Joined:
    """Rows of two sides put together. `on` is a list of names, or right names by left names; `doubles` are those of the
    left names whose columns are compared as doubles, `rename` has new names for columns of the right."""

    def __init__(
        self,
        on: Sequence[str] | Mapping[str, str],
        left: Sequence[str],
        right: Sequence[str],
        doubles: Collection[str] = (),
        rename: Mapping[str, str] | None = None,
    ) -> None:
        self._doubles = [name in doubles for name in on]
        self.on = dict(on) if isinstance(on, Mapping) else {name: name for name in on}
        self._left = [name for name in left if name not in self.on]
        theirs = [name for name in right if name not in self.on.values()]
        taken = {*self.on, *self._left}
        named = rename or {}
        self._right = {name: named.get(name) or (f"{name}_right" if name in taken else name) for name in theirs}

    @property
    def columns(self) -> list[tuple[str, str, str]]:
        """Name, side and column of the side, for each column of the result."""
        return [
            *((mine, "key", mine) for mine in self.on),
            *((name, "left", name) for name in self._left),
            *((shown, "right", name) for name, shown in self._right.items()),
        ]

    def right_names(self, names: Sequence[str]) -> list[str]:
        """Columns of the right by their names in the result."""
        mine = {theirs: mine for mine, theirs in self.on.items()}
        return [mine.get(name) or self._right[name] for name in names]

    def key(self, side: str, values: Values) -> tuple[Hashable, ...] | None:
        """What has to be equal; None where something is null, which equals nothing."""
        parts = [values[name] for name in (self.on if side == "left" else self.on.values())]
        return None if None in parts else self.compared(parts)

    def compared(self, key: Sequence[Any]) -> tuple[Hashable, ...]:
        """A key in the types that both sides are compared in."""
        both = zip(key, self._doubles, strict=True)
        return tuple(canonical(float(one) if double else one) for one, double in both)

    def values(self, left: Values | None, right: Values | None) -> Values:
        """A row of the result, of which one side may be missing."""
        return {
            **{mine: left[mine] if left is not None else (right or {})[theirs] for mine, theirs in self.on.items()},
            **{name: None if left is None else left[name] for name in self._left},
            **{shown: None if right is None else right[name] for name, shown in self._right.items()},
        }
