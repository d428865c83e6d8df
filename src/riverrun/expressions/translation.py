"""Spark SQL expressions in DuckDB's SQL, for the part of the language where the result is known to be the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from riverrun.ddl import Array, Struct, Type
from riverrun.expressions import (
    arithmetic,
    comparison,
    conditions,
    constants,
    dates,
    formats,
    nested,
    numbers,
    patterns,
    strings,
    temporal,
)
from riverrun.expressions.casts import cast
from riverrun.expressions.folding import folded_call
from riverrun.expressions.forms import FORMS, HINT, UNKNOWN_HINT, Given, Unverified, refusal
from riverrun.expressions.term import Term, quoted
from riverrun.flow.coercion import is_stored
from riverrun.flow.functions import NONDETERMINISTIC
from riverrun.flow.inference import type_of
from riverrun.flow.parser import parse
from riverrun.flow.schema import BOOLEAN
from riverrun.flow.syntax import Call, Cast, Constant, Field, Name, Tree, UnknownSyntax, parts

Columns = Callable[[exp.Column], "Type | None"]
_FORMS_OF = (arithmetic, comparison, conditions, dates, formats, nested, numbers, patterns, strings, temporal)
"""Modules that add forms to the verified set."""

_BEFORE = "is the same for every row: Spark computes it before, and less of the rest"
_CASES = ("upper", "ucase", "lower", "lcase")
_MOST = 1 << 16  # characters of SQL; what is longer is an accident


@dataclass(frozen=True, slots=True)
class Translated:
    """An expression for DuckDB, over the same columns; `type` is Spark's type of the result."""

    sql: str
    type: Type
    may_fail: bool


def translate(sql: str, column: Columns) -> Translated:
    """The expression for a connection of `connect`.

    `column` gives the type of a column, or of a field inside its structs. `Unverified` where it is not certain that
    DuckDB computes the same value, the same null and the same error for every row as Spark would.
    """
    try:
        tree = parse(sql)
    except UnknownSyntax as error:
        raise Unverified(error.message, hint=HINT) from None
    term = _Translation(column).term(tree)
    if not is_stored(term.type):
        raise refusal(sql, f"is {term.type}")
    return Translated(term.sql, term.type, term.may_fail)


class _Translation:
    """One tree on its way to DuckDB."""

    def __init__(self, column: Columns) -> None:
        self.column = column

    def term(self, tree: Tree) -> Term:
        term = self.translated(tree)
        if not (term.rowless or term.constant is not None or not _reads_row(tree)):
            return term
        if term.may_fail:
            raise refusal(tree.text, "is the same for every row and may fail, which Spark finds out before")
        return replace(term, rowless=True)

    def translated(self, tree: Tree) -> Term:
        match tree:
            case Name():
                return self.named(tree)
            case Constant():
                return constants.constant(tree)
            case Cast():
                return self.cast(tree)
            case Field():
                return self.field(tree)
            case Call():
                return self.call(tree)
        raise refusal(tree.text)

    def named(self, tree: Name) -> Term:
        if len(tree.parts) > 4 or (len(tree.parts) == 1 and tree.parts[0].lower() in NONDETERMINISTIC):
            raise refusal(tree.text)
        names = [exp.to_identifier(part, quoted=True) for part in reversed(tree.parts)]
        kind = self.column(exp.Column(**dict(zip(("this", "table", "db", "catalog"), names, strict=False))))
        if kind is None:
            raise refusal(tree.text)
        return Term(".".join(map(quoted, tree.parts)), kind, nullable=True)

    def cast(self, tree: Cast) -> Term:
        try:
            return cast(self.term(tree.value), tree.type, tree.safe)
        except Unverified as error:
            raise error if tree.text not in error.message else refusal(tree.text) from None

    def field(self, tree: Field) -> Term:
        if isinstance(tree.value, Call) and tree.value.name == "named_struct":
            self.term(tree.value)
            if (chosen := _chosen(tree)) is None:
                raise refusal(tree.text)
            return self.term(chosen)
        value = self.term(tree.value)
        if value.may_fail:
            raise refusal(tree.text, "is a field of something that may fail, of which Spark may compute only a part")
        if type_of(tree, lambda _: value.type) is None or not isinstance(value.type, Struct):
            raise refusal(tree.text)
        return nested.field(value, tree.name)

    def call(self, tree: Call) -> Term:
        match tree:
            case Call("[]", (Call("array") as array, Constant(_, int()))):
                several = self.term(array).type
                if not isinstance(several, Array) or (chosen := _chosen(tree)) is None:
                    raise refusal(tree.text)
                return cast(self.term(chosen), several.element)
            case Call(name, (Call(inner, (value,)),)) if name in _CASES and inner in _CASES:
                return self.term(Call(name, (value,), tree.text))  # Spark leaves out the inner one
            case Call("ilike", (Call(inner), *_)) if inner in _CASES:
                raise refusal(tree.text)
        rule = FORMS.get(tree.name)
        if rule is None:
            raise refusal(tree.text, hint=UNKNOWN_HINT if tree.name.isidentifier() else HINT)
        terms = {id(part): self.term(part) for part in tree.arguments}
        kind = type_of(tree, lambda part: terms[id(part)].type)
        if kind is None:
            raise refusal(tree.text)
        arguments = tuple(terms[id(part)] for part in tree.arguments)
        values = [term.constant for term in arguments if term.constant is not None and not term.is_null]
        if len(values) == len(arguments) and (folded := folded_call(tree, values, kind)) is not None:
            return constants.constant(folded)
        computed = [part for part, term in zip(tree.arguments, arguments, strict=True) if _may_fold(term)]
        if computed and any(term.type == BOOLEAN and _is_computed(term) for term in arguments):
            raise refusal(computed[0].text, _BEFORE)
        term = rule(Given(tree, arguments, kind))
        if computed and (term.may_fail or any(argument.may_fail for argument in arguments)):
            raise refusal(computed[0].text, _BEFORE)
        if len(term.sql) > _MOST:
            raise refusal(tree.text, "is too long")
        is_rowless = bool(arguments) and all(argument.rowless for argument in arguments)
        return replace(term, rowless=is_rowless or term.rowless, folds=term.constant is None and bool(computed))


def _reads_row(tree: Tree) -> bool:
    """Whether it can be another value in another row."""
    if isinstance(tree, Name):
        return True
    chosen = _chosen(tree)
    return any(_reads_row(part) for part in (parts(tree) if chosen is None else (chosen,)))


def _chosen(tree: Tree) -> Tree | None:
    """The field of a struct, or the element of an array, that is written out: Spark does not look at the others."""
    match tree:
        case Field(Call("named_struct", arguments), wanted):
            for name, value in zip(arguments[::2], arguments[1::2], strict=True):
                if isinstance(name, Constant) and str(name.value).lower() == wanted.lower():
                    return value
        case Call("[]", (Call("array", arguments), Constant(_, int(index)))) if 0 <= index < len(arguments):
            return arguments[index]
    return None


def _may_fold(term: Term) -> bool:
    """Whether Spark may find out before it sees a row that it is null."""
    return term.folds or _is_computed(term)


def _is_computed(term: Term) -> bool:
    """Whether it is no literal, but the same for every row: Spark computes it before, and may then skip its neighbours."""
    return term.rowless and term.constant is None
