"""docs/python.md, written from the docstrings: `python docs/python_reference.py`.

`python_examples.txt` has the chapters in their order, and under the names of what is public an example; this puts the
signatures and the docstrings between. A test compares the result with what is in the repository, and runs the examples.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import riverrun
from riverrun import testing

HERE = Path(__file__).parent
_NOTE = (
    "<!-- Written by `python docs/python_reference.py`; change docstrings or python_examples.txt, not this file. -->"
)
_WIDEST = 110

# Public classes whose methods people call. What else they have is for other parts of Riverrun.
_CLASSES = [
    "Alerts",
    "Capture",
    "Consumer",
    "Flow",
    "Message",
    "Position",
    "Producer",
    "Queue",
    "River",
    "Run",
    "Snapshot",
    "Stream",
    "Table",
    "Topic",
    "TopicSpec",
    "View",
]
_INSIDE = {
    "Alerts": "group",
    "Flow": "declared ends inputs nodes topics",
    "Producer": "after_fork",
    "Queue": "give_back leave tell",
    "River": "store topic_spec",
    "Topic": "attach check_range checked last_sequence offsets offsets_at raise_fence spec summaries",
    "TopicSpec": "check_same declared of resolve",
    "View": "progress reached spec",
}


def public_names() -> Iterator[str]:
    """Everything that a user may call, as the reference calls it: `count`, `Stream.where`, `testing.run_flow`."""
    for name in riverrun.__all__:
        yield name
        if name in _CLASSES:
            inside = set(_INSIDE.get(name, "").split())
            found = getattr(riverrun, name)
            kinds = [kind for kind in reversed(found.__mro__) if kind.__module__.startswith("riverrun.")]
            members = {member: None for kind in kinds for member in vars(kind)}
            for member in members:
                value = inspect.getattr_static(found, member)
                is_called = callable(value) or isinstance(value, property | classmethod | staticmethod)
                if not member.startswith("_") and member not in inside and is_called:
                    yield f"{name}.{member}"
    yield from (f"testing.{name}" for name in testing.__all__)


def find(name: str) -> Any:
    """What a name means."""
    found: Any = riverrun
    for part in name.split("."):
        found = testing if found is riverrun and part == "testing" else getattr(found, part)
    return found


def page(source: str) -> str:
    """The reference. Lines `## a, b` of the source are names."""
    head, _, rest = source.partition("\n# ")
    title, _, intro = head.partition("\n")
    written = [f"{title}\n\n{_NOTE}\n{intro}\n"]
    for line in f"# {rest}".splitlines():
        if line.startswith("# "):
            written.append(f"#{line}")
        elif line.startswith("## "):
            names = line.removeprefix("## ").split(", ")
            written.append(f"### {', '.join(f'`{_shown(name)}`' for name in names)}\n")
            written += [_described(name) for name in names]
        else:
            written.append(line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(written)).rstrip() + "\n"


def _shown(name: str) -> str:
    owner, _, member = name.rpartition(".")
    if not owner:
        return f"rr.{name}"
    return name if owner == "testing" else f"{owner}.{member}"


def _described(name: str) -> str:
    found = find(name)
    about = inspect.cleandoc(_doc(name, found) or "")
    prose = about.partition(">>>")[0].strip()
    return f"```\n{signature(name, found)}\n```\n\n{prose}\n"


def _doc(name: str, found: Any) -> str | None:
    if isinstance(found, property):
        return found.__doc__
    return found.__doc__ if callable(found) or inspect.isclass(found) else None


def signature(name: str, found: Any) -> str:
    """How it is called, on one line or with an argument on each."""
    shown = _shown(name)
    if isinstance(found, property) or not callable(found):
        return shown
    if inspect.isclass(found) and issubclass(found, Exception):
        parents = [parent.__name__ for parent in found.__bases__]
        return f"class {shown}({', '.join(parents)})"
    parameters = [one for one in inspect.signature(found).parameters.values() if not one.name.startswith("_")]
    if "." in name and not name.startswith("testing.") and parameters and parameters[0].name == "self":
        parameters = parameters[1:]
    texts = list(_texts(parameters))
    given = inspect.signature(found).return_annotation
    gives = "" if inspect.isclass(found) or given in (inspect.Signature.empty, "None", None) else f" -> {_kind(given)}"
    whole = f"{shown}({', '.join(texts)}){gives}"
    if len(whole) <= _WIDEST:
        return whole
    return "\n".join([f"{shown}(", *(f"    {text}," for text in texts), f"){gives}"])


def _texts(parameters: list[inspect.Parameter]) -> Iterator[str]:
    starred = False
    for one in parameters:
        if one.kind is one.KEYWORD_ONLY and not starred:
            yield "*"
        starred |= one.kind in (one.KEYWORD_ONLY, one.VAR_POSITIONAL)
        stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        kind = _kind(one.annotation)
        said = f": {kind}" if one.annotation is not one.empty else ""
        default = "" if one.default is one.empty else f" = {_default(one.default)}"
        yield f"{stars}{one.name}{said}{default}"


def _kind(annotation: Any) -> str:
    """A type as people read it: what may be left out is seen from the default."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return text.replace(" | Unset", "").replace("Unset | ", "").replace(" | StoredSpec", "")


def _default(value: Any) -> str:
    """A default that cannot be written is left to the type."""
    text = repr(value)
    return "…" if text.startswith("<") or type(value).__name__ == "Unset" else text


def main() -> None:
    (HERE / "python.md").write_text(page((HERE / "python_examples.txt").read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
