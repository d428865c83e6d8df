"""The watermark by its definition: one receive time after the other."""

from __future__ import annotations

from collections.abc import Sequence

from riverrun.kernels.kernel import MIN_TIME


def watermark(heard: Sequence[tuple[str | None, int, int]], until: int, lateness: int, idle: int | None) -> int:
    """Of (producer, event time, receive time) rows, at receive time `until`. Small integers, please."""
    if not heard:
        return MIN_TIME
    reached = MIN_TIME
    for now in range(min(received for _, _, received in heard), until + 1):
        largest: dict[str | None, int] = {}
        last: dict[str | None, int] = {}
        for producer, time, received in heard:
            if received <= now:
                largest[producer] = max(largest.get(producer, time), time)
                last[producer] = max(last.get(producer, received), received)
        live = [largest[p] for p in largest if idle is None or now - last[p] < idle]
        if live:
            reached = max(reached, min(live) - lateness)
    return reached
