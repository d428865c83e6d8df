"""How far every address of an alert is, in a small file that is replaced at once.

It holds positions only, no rows and no addresses. Written before a message is sent for the first time, so that after a
crash the same rows make the same message again, with the same key.
"""

from __future__ import annotations

import msgspec

from riverrun import durable
from riverrun.alerts.line import Line, Note
from riverrun.alerts.stretch import Offsets


class Notes(msgspec.Struct):
    """The file's content. `committed` is where the consumer group was."""

    committed: Offsets
    lines: dict[str, Note]


def recall(path: str, names: list[str], committed: Offsets) -> dict[str, Note]:
    """A note for each of the names. Where the group was moved by somebody else, or the file is gone, the group counts."""
    noted: dict[str, Note] = {}
    try:
        with open(path, "rb") as file:
            notes = msgspec.json.decode(file.read(), type=Notes)
        least = {p: min(note.done[p] for note in notes.lines.values()) for p in notes.committed}
        if committed in (notes.committed, least):  # the second: it died just before it could commit
            noted = notes.lines
    except (FileNotFoundError, msgspec.DecodeError, msgspec.ValidationError, KeyError, ValueError):
        pass
    return {name: noted.get(name) or Note(dict(committed)) for name in names}


def write(path: str, lines: dict[str, Line], committed: Offsets) -> None:
    """Replace the file."""
    notes = Notes(committed, {name: line.note for name, line in lines.items()})
    durable.write_file(path, msgspec.json.encode(notes))
