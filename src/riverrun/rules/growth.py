"""How much larger than its row a value can be that a rule computes. What somebody wrote into a rule must not take the memory
of the machine."""

from __future__ import annotations

from riverrun.errors import Invalid
from riverrun.flow.parser import parse
from riverrun.flow.syntax import Call, Constant, Tree, UnknownSyntax, parts

LARGEST = 10_000
"""Times that all functions of an expression together may repeat a string."""

_REPEATED = {"repeat": 1, "rpad": 1, "lpad": 1, "space": 0, "array_repeat": 1}
_REPLACED = ("replace", "regexp_replace", "overlay")
_UNKNOWN = 100  # times that a string gets longer where that depends on the row


def refuse_growth(sql: str) -> None:
    """Refuse an expression that makes far more of a row than there is in it."""
    try:
        tree = parse(sql)
    except UnknownSyntax:
        return
    _growth(tree)


def _growth(tree: Tree) -> int:
    """By how many times what a tree reads can become longer."""
    inner = max((_growth(part) for part in parts(tree)), default=1)
    match tree:
        case Call(name, arguments) if name in _REPEATED and len(arguments) > _REPEATED[name]:
            times = arguments[_REPEATED[name]]
            if not isinstance(times, Constant) or not isinstance(times.value, int):
                raise Invalid(f"{tree.text}: in a rule, {name} takes a number that is written out")
            inner *= max(times.value, 1)
        case Call(name, arguments) if name in _REPLACED:
            put = arguments[2] if len(arguments) > 2 else None
            known = isinstance(put, Constant) and isinstance(put.value, str)
            inner *= max(len(put.value), 1) if known else _UNKNOWN if put is not None else 1  # type: ignore[union-attr,arg-type]
    if inner > LARGEST:
        raise Invalid(f"{tree.text} makes a string that is more than {LARGEST} times as long", hint="Repeat it less")
    return inner
