"""`t.join(t2, on)`: the join of two tables, maintained."""

from __future__ import annotations

from dataclasses import dataclass

from riverrun.columns import SIDE
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
        both = [*left, *(apart.get(name, name) for name in right)]
        if self.side is not None:
            shared = {pair.left for pair in self.on}
            if shared.issuperset(both):  # nothing else tells a row of the left alone from one of the right alone
                both += [pair.left for pair in self.on]
            both.append(self.side)
        return tuple(dict.fromkeys(both))

    @property
    def side(self) -> str | None:
        """The part of a full join's key that says which side a row without a partner is from. A null in `on` matches
        nothing, so both sides may have one in which all other parts are equal."""
        if self.how != "full":
            return None
        chosen = SIDE
        while chosen in (*self.left.key, *self.apart.values()):
            chosen += "_right"
        return chosen

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
