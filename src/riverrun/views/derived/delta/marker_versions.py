"""The marker of a flow in a Delta table: application transactions, which are numbers that a commit sets with its rows, and
which stay whatever becomes of older commits. Delta does not compare them: whoever writes loads the table, looks, and commits
on what it has loaded, so that a writer who did the same meanwhile makes it fail."""

from __future__ import annotations

import re
from typing import Any

from deltalake import CommitProperties, DeltaTable, Transaction

from riverrun.errors import Invalid
from riverrun.views.derived.marker import Marker

_PARTS = ("fence", "sequence", "input", "generation")
_GENERATION = re.compile(r"(?P<flow>.*?)(?:~(?P<number>\d+))?", re.DOTALL)
_NONE = -1


def read_marker(table: Any, flow: str) -> Marker | None:
    """None where the flow has never written to the table."""
    found = {part: table.transaction_version(_application(flow, part)) for part in _PARTS}
    if found["fence"] is None:
        return None
    number = found["generation"]
    generation = "" if number in (None, _NONE) else flow if number == 0 else f"{flow}~{number - 1}"
    return Marker(found["fence"], "", generation, found["sequence"] or 0, found["input"] or 0)


def commit_properties(marker: Marker, flow: str) -> CommitProperties:
    """What a commit has to carry so that this is the marker after it."""
    numbers = (marker.fence, marker.sequence, marker.input, _number(marker.generation, flow))
    versions = [Transaction(_application(flow, part), number) for part, number in zip(_PARTS, numbers, strict=True)]
    said = {"riverrun.flow": flow, "riverrun.run": marker.run, "riverrun.epoch": str(marker.sequence)}
    return CommitProperties(app_transactions=versions, custom_metadata=said, max_commit_retries=0)


def has_marker(table: DeltaTable, flow: str) -> bool:
    """Whether the flow has ever written to the table."""
    return table.transaction_version(_application(flow, _PARTS[0])) is not None


def _application(flow: str, part: str) -> str:
    return f"riverrun:{flow}:{part}"


def _number(generation: str, flow: str) -> int:
    """A generation is the flow's name, or that and the number of a rebuild."""
    if not generation:
        return _NONE
    found = _GENERATION.fullmatch(generation)
    if found is None or found["flow"] != flow:
        raise Invalid(f"{generation!r} is no computation of flow {flow!r}")
    return 0 if found["number"] is None else int(found["number"]) + 1
