"""`t.join(t2, on)`: the join of two tables, maintained."""

from __future__ import annotations

from dataclasses import dataclass

from riverrun.flow.operators.join import Join


@dataclass(frozen=True, eq=False, kw_only=True)
class JoinTables(Join):
    """The join of two tables as they are now, maintained: equal to SQL's after every epoch."""

    kind = "join_tables"
    word = "join"
    key_travels = True
    retracts = True

    @property
    def key(self) -> tuple[str, ...]:
        left, right = self.renamed("left", self.left.key), self.renamed("right", self.right.key)
        apart = self.apart
        return tuple(dict.fromkeys([*left, *(apart.get(name, name) for name in right)]))

    @property
    def apart(self) -> dict[str, str]:
        """Hidden parts of the right's key by their names in the result, where the left's may have the same."""
        found: dict[str, str] = {}
        for name in self.right.key:
            if name not in self.right.schema:
                chosen = name
                while chosen in (*self.left.key, *found.values()):
                    chosen += "_right"
                found[name] = chosen
        return found
