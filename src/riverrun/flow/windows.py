"""Windows and late policies: what `s.window(…)` is told."""

from __future__ import annotations

from dataclasses import dataclass

from riverrun.columns import check_name
from riverrun.durations import Duration, show
from riverrun.errors import Invalid
from riverrun.flow.names import Names, listed
from riverrun.flow.place import declaration
from riverrun.flow.spans import positive, span


@dataclass(frozen=True, slots=True)
class Tumbling:
    """`[start, start + size)`, one after the other."""

    size: int
    offset: int = 0

    @property
    def every(self) -> int:
        """Distance of two starts."""
        return self.size

    def __str__(self) -> str:
        return f"tumbling {show(self.size)}" + (f" + {show(self.offset)}" if self.offset else "")


@dataclass(frozen=True, slots=True)
class Hopping:
    """`[start, start + size)` with a start at every multiple of `every`; they overlap."""

    size: int
    every: int

    def __str__(self) -> str:
        return f"hopping {show(self.size)} every {show(self.every)}"


@dataclass(frozen=True, slots=True)
class Sliding:
    """`(t - size, t]` for every event time t of a key, and for every row of that time that differs in columns to `keep`."""

    size: int
    keep: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"sliding {show(self.size)}" + (f" with {', '.join(self.keep)}" if self.keep else "")


@dataclass(frozen=True, slots=True)
class Session:
    """Rows of one key less than `gap` apart."""

    gap: int

    def __str__(self) -> str:
        return f"session {show(self.gap)}"


@dataclass(frozen=True, slots=True)
class DropLate:
    """Late rows are counted and left out."""

    @property
    def horizon(self) -> int:
        """How much longer results stay open."""
        return 0

    def __str__(self) -> str:
        return "drop"


@dataclass(frozen=True, slots=True)
class Side:
    """Late rows are written to `topic`, with the watermark they missed."""

    topic: str

    @property
    def horizon(self) -> int:
        """How much longer results stay open."""
        return 0

    def __str__(self) -> str:
        return f"side {self.topic}"


@dataclass(frozen=True, slots=True)
class Correct:
    """Results stay open for `horizon` more and are issued again."""

    horizon: int

    def __str__(self) -> str:
        return f"correct {show(self.horizon)}"


WindowKind = Tumbling | Hopping | Sliding | Session
Late = DropLate | Side | Correct


def late_policy(late: Late | None) -> Late:
    """The policy that was given; None: late rows are dropped."""
    policy = DropLate() if late is None else late
    if not isinstance(policy, DropLate | Side | Correct):
        raise Invalid(f"not a late policy: {late!r}", hint='Write rr.drop(), rr.side("topic") or rr.correct("1 hour")')
    return policy


@declaration
def tumbling(size: Duration, offset: Duration | None = None) -> Tumbling:
    """Windows of one size without gaps, aligned to 1970-01-01T00:00:00Z plus `offset`."""
    length = positive("the window's size", size)
    return Tumbling(length, span("the window's offset", offset) % length if offset is not None else 0)


@declaration
def hopping(size: Duration, every: Duration) -> Hopping:
    """Windows of one size, a new one every so often; a row belongs to several."""
    length, step = positive("the window's size", size), positive("the window's every", every)
    if step > length:
        raise Invalid(
            f"hopping windows of {size!r} every {every!r} leave rows out: every is longer than size",
            hint="Use where() for rows that do not count, or a larger size",
        )
    return Hopping(length, step)


@declaration
def sliding(size: Duration, keep: Names | None = None) -> Sliding:
    """For each row of a key, the window of `size` that ends with it. Results have the columns `keep` of that row, such as
    its id; without, rows of the same key and time share one result."""
    return Sliding(positive("the window's size", size), () if keep is None else tuple(listed("keep", keep)))


@declaration
def session(gap: Duration) -> Session:
    """Windows that end when a key has been quiet for `gap`."""
    return Session(positive("the session's gap", gap))


@declaration
def drop() -> DropLate:
    """Count late rows and leave them out."""
    return DropLate()


@declaration
def side(topic: str) -> Side:
    """Write late rows to a topic."""
    return Side(check_name(topic, "topic"))


@declaration
def correct(horizon: Duration) -> Correct:
    """Keep results open for `horizon` after they closed, and issue them again when a late row changes them."""
    return Correct(positive("the correction's horizon", horizon))
