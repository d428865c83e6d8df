"""A keyed view as a dict, changed one row at a time."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]


class ViewOracle:
    def __init__(self, key: tuple[str, ...]) -> None:
        self.key = key
        self._rows: dict[tuple, Row] = {}

    def rows(self) -> list[Row]:
        return [dict(row) for row in self._rows.values()]

    def weighted(self, steps: list[tuple[str, tuple, Row]]) -> list[tuple[Row, int]]:
        """Steps as a table would send them: an update retracts what is there, an upsert does not."""
        now = dict(self._rows)
        sent: list[tuple[Row, int]] = []
        upserted: set[tuple] = set()
        for what, key, values in steps:
            row = {**dict(zip(self.key, key, strict=True)), **values}
            old = now.get(key)
            if what == "upsert" and not any(self._key(sent_row) == key for sent_row, _ in sent):
                # Alone for its key in this epoch: what it replaces is known to the view only.
                sent.append((row, 1))
                now[key] = row
                upserted.add(key)
            elif key in upserted:
                continue
            elif what == "delete" and old is not None:
                sent.append((old, -1))
                del now[key]
            elif what == "flicker":
                sent += [(row, 1), (row, -1)]
            elif what == "update":
                if old is not None:
                    sent.append((old, -1))
                sent.append((row, 1))
                now[key] = row
        return sent

    def apply(self, batch: list[tuple[Row, int]]) -> None:
        """Sum the weights of equal rows, then delete, then set."""
        sums: list[tuple[Row, int]] = []
        for row, weight in batch:
            for i, (other, total) in enumerate(sums):
                if other == row:
                    sums[i] = (other, total + weight)
                    break
            else:
                sums.append((row, weight))
        for row, total in sums:
            if total < 0:
                self._rows.pop(self._key(row), None)
        last = [row for row, weight in batch if weight > 0]
        for row, total in sorted(
            sums, key=lambda pair: max((i for i, r in enumerate(last) if r == pair[0]), default=-1)
        ):
            if total > 0:
                self._rows[self._key(row)] = row

    def follow(self, change: Any) -> None:
        """One change of `view.changes()`; it must find the row it says it found."""
        key = self._key(change.before or change.after)
        assert self._rows.get(key) == change.before, change
        if change.after is None:
            del self._rows[key]
        else:
            self._rows[key] = change.after

    def _key(self, row: Row) -> tuple:
        return tuple(row[name] for name in self.key)
