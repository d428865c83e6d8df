"""What a condition says across rows, as a program: each part that looks at one row is a column, the rest are steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal as Exact
from typing import NoReturn

from riverrun.ddl import Decimal, Type
from riverrun.errors import Invalid
from riverrun.flow.coercion import DAYS_TO_SECONDS, is_datetime, is_interval, is_months
from riverrun.flow.lexer import lexemes
from riverrun.flow.schema import BIGINT, BOOLEAN, DOUBLE, STRING, TIMESTAMP, is_integral
from riverrun.flow.syntax import VOID, Call, Cast, Constant, Name, Tree, walk
from riverrun.patterns.navigation import CURRENT, NavigatedText, RowOf, TotalOf, ValueOf
from riverrun.patterns.program import (
    CodedConstant,
    ColumnSet,
    RowProgram,
    RowTotal,
    RowValue,
    Step,
    is_coded,
    is_number,
    is_real,
)
from riverrun.patterns.tables import Op

_COMPARISONS = ("=", "<", "<=", ">", ">=", "<=>")
_ARITHMETIC = {"+": (Op.ADD, Op.ADD_REAL), "-": (Op.SUBTRACT, Op.SUBTRACT_REAL), "*": (Op.MULTIPLY, Op.MULTIPLY_REAL)}
_INTERVAL = "interval"
# What is not null where its arguments are. Of a row that is not there everything else is null.
_SEES_NULLS = frozenset(
    (
        "isnull",
        "isnotnull",
        "coalesce",
        "ifnull",
        "nvl",
        "nvl2",
        "case",
        "if",
        "iff",
        "<=>",
        "and",
        "or",
        "greatest",
        "least",
        "concat_ws",
        "array",
        "named_struct",
        "map",
        "hash",
        "xxhash64",
        "isnan",
        "equal_null",
        "zeroifnull",
        "format_string",
        "printf",
        "typeof",
        "decode",
    )
)


class ConditionAssembly:
    """One condition on its way to a program."""

    def __init__(self, name: str, rewritten: NavigatedText, columns: ColumnSet) -> None:
        self.name = name
        self.parts: Mapping[str, ValueOf | TotalOf] = rewritten.parts
        self.columns = columns
        self.steps: list[Step] = []

    def refuse(self, tree: Tree, why: str, hint: str | None = None) -> NoReturn:
        raise Invalid(f"{self.name}: {self.shown(tree.text)} {why}", hint=hint)

    def shown(self, text: str) -> str:
        return repr(self.restored(text))

    def restored(self, text: str) -> str:
        """The text with its values as they are written in their own rows."""
        pieces, at = [], 0
        for word in lexemes(text):
            part = self.parts.get(word.text) if word.kind == "word" else None
            if part is not None:
                inner = part.sql if isinstance(part, ValueOf) else f"{part.function}(…)"
                pieces += [text[at : word.start], f"({inner})"]
                at = word.end
        return "".join([*pieces, text[at:]])

    def rows(self, tree: Tree) -> set[RowOf | TotalOf]:
        """The rows that a tree speaks of, and totals."""
        found: set[RowOf | TotalOf] = set()
        for part in walk(tree):
            if isinstance(part, Name):
                known = self.parts.get(part.parts[0])
                found.add(CURRENT if known is None else known.row if isinstance(known, ValueOf) else known)
        return found

    def program(self, tree: Tree) -> RowProgram:
        self.steps = []
        kind = self.value(tree)
        if kind != BOOLEAN:
            self.refuse(tree, f"is {kind}, not boolean", "A condition compares")
        return RowProgram(tuple(self.steps))

    def value(self, tree: Tree) -> Type:
        """Adds the steps that compute a tree; the type of what they leave."""
        rows = self.rows(tree)
        if isinstance(tree, Constant):
            return self.constant(tree)
        if not rows:
            return self.load(tree, CURRENT)
        if len(rows) == 1:
            (row,) = rows
            if isinstance(row, RowOf) and (row == CURRENT or not _sees_nulls(tree)):
                return self.load(tree, row)
            if isinstance(tree, Name) and isinstance(row, TotalOf):
                return self.total(tree, row)
        return self.computed(tree)

    def load(self, tree: Tree, row: RowOf) -> Type:
        column = self.columns.add(self.restored(tree.text))
        kind = self.columns.type_of(column)
        self.steps.append(RowValue(Op.LOAD_REAL if is_real(kind) else Op.LOAD_WHOLE, column, row))
        return kind

    def constant(self, tree: Constant) -> Type:
        if tree.value is None:
            self.steps.append(None)
        elif isinstance(tree.value, Exact | float):
            self.steps.append(float(tree.value))
            return DOUBLE
        elif isinstance(tree.value, int):
            self.steps.append(int(tree.value))
        else:
            self.steps.append(CodedConstant(tree.value, tree.type))
        return tree.type

    def total(self, tree: Tree, total: TotalOf) -> Type:
        function, variable = total.function, total.variable
        if total.sql is None:
            self.steps.append(RowTotal(Op.COUNT, function, variable))
            return BIGINT
        column = self.columns.add(total.sql)
        kind = self.columns.type_of(column)
        if function in ("sum", "avg") and isinstance(kind, Decimal):
            column, kind = self.columns.add(f"cast({total.sql} as double)"), DOUBLE
        elif function in ("sum", "avg") and not is_number(kind):
            self.refuse(tree, f"adds up {kind}")
        result = {"count": BIGINT, "avg": DOUBLE, "sum": DOUBLE if is_real(kind) else BIGINT}.get(function, kind)
        self.steps.append(RowTotal(Op.TOTAL_REAL if is_real(result) else Op.TOTAL_WHOLE, function, variable, column))
        return result

    def computed(self, tree: Tree) -> Type:
        match tree:
            case Call("and" | "or" as name, (one, other)):
                self.truths(one, other)
                self.steps.append(Op.AND if name == "and" else Op.OR)
                return BOOLEAN
            case Call("not" | "!", (one,)):
                self.truths(one)
                self.steps.append(Op.NOT)
                return BOOLEAN
            case Call(name, (one, other)) if name in _COMPARISONS:
                self.compare(tree, name, one, other)
                return BOOLEAN
            case Call("between", (one, low, high)):
                self.compare(tree, ">=", one, low)
                self.compare(tree, "<=", one, high)
                self.steps.append(Op.AND)
                return BOOLEAN
            case Call("in", (one, *others)) if others:
                for number, other in enumerate(others):
                    self.compare(tree, "=", one, other)
                    if number:
                        self.steps.append(Op.OR)
                return BOOLEAN
            case Call("isnull" | "isnotnull" as name, (one,)):
                self.value(one)
                self.steps.append(Op.IS_NULL)
                if name == "isnotnull":
                    self.steps.append(Op.NOT)
                return BOOLEAN
            case Call("coalesce" | "ifnull" | "nvl", (first, *rest)) if rest:
                return self.common(tree, [first, *rest], [Op.COALESCE] * len(rest))
            case Call("case" | "if" | "iff", parts):
                return self.choice(tree, parts)
            case Call("abs" | "negative" | "positive" as name, (one,)):
                return self.signed(tree, name, one)
            case Call(name, (one, other)) if name in (*_ARITHMETIC, "/", "%", "mod", "div"):
                return self.arithmetic(tree, name, one, other)
            case Cast(inner, kind) if kind == DOUBLE or is_integral(kind):
                return self.cast(tree, inner, kind)
        hint = (
            "Across rows there are comparisons, arithmetic, and, or, not, case, coalesce, abs; the rest is for one row"
        )
        return self.refuse(tree, "cannot be computed of several rows", hint)

    def truths(self, *trees: Tree) -> None:
        for tree in trees:
            if self.value(tree) not in (BOOLEAN, VOID):
                self.refuse(tree, "is not boolean")

    def cast(self, tree: Tree, inner: Tree, kind: Type) -> Type:
        was = self.value(inner)
        if kind == DOUBLE and is_integral(was):
            self.steps.append(Op.TO_REAL)
        elif not (was == kind or (is_integral(was) and kind == BIGINT)):
            self.refuse(tree, f"casts {was} across rows", "Cast the columns instead")
        return kind

    def signed(self, tree: Tree, name: str, inner: Tree) -> Type:
        kind = self.value(inner)
        if not (is_number(kind) or is_interval(kind)):
            self.refuse(tree, f"is about {kind}")
        if name != "positive":
            whole, real = (Op.ABS, Op.ABS_REAL) if name == "abs" else (Op.NEGATIVE, Op.NEGATIVE_REAL)
            self.steps.append(real if is_real(kind) else whole)
        return kind

    def choice(self, tree: Tree, parts: Sequence[Tree]) -> Type:
        values = [*parts[1::2], *(parts[-1:] if len(parts) % 2 else [Constant(VOID, None)])]
        conditions = parts[0 : len(parts) - len(parts) % 2 : 2]
        kind = self.kind_of(tree, values)

        def step(number: int) -> None:
            if number == len(conditions):
                self.typed(values[-1], kind)
                return
            self.truths(conditions[number])
            self.typed(values[number], kind)
            step(number + 1)
            self.steps.append(Op.CHOOSE)

        step(0)
        return kind

    def common(self, tree: Tree, values: Sequence[Tree], operations: Sequence[Op]) -> Type:
        kind = self.kind_of(tree, values)
        self.typed(values[0], kind)
        for value, operation in zip(values[1:], operations, strict=True):
            self.typed(value, kind)
            self.steps.append(operation)
        return kind

    def typed(self, tree: Tree, kind: Type) -> None:
        """A value in a type that it has, or that is wider."""
        was = self.value(tree)
        if was != VOID and is_real(kind) and not is_real(was):
            if isinstance(was, Decimal):
                self.as_double()
            else:
                self.steps.append(Op.TO_REAL)

    def as_double(self) -> None:
        """The last step loads a decimal: it loads a double instead."""
        last = self.steps.pop()
        assert isinstance(last, RowValue)
        column = self.columns.add(f"cast({self.columns.expressions[last.column]} as double)")
        self.steps.append(RowValue(Op.LOAD_REAL, column, last.row))

    def kind_of(self, tree: Tree, values: Sequence[Tree]) -> Type:
        """The type that values are compared in. Their steps are not added."""
        kept, kinds = self.steps, []
        for value in values:
            self.steps = []
            kind = self.value(value)
            if kind != VOID:
                kinds.append(kind)
        self.steps = kept
        return self.widest(tree, kinds)

    def widest(self, tree: Tree, kinds: Sequence[Type]) -> Type:
        if not kinds:
            return BIGINT
        if all(kind == kinds[0] for kind in kinds):
            return kinds[0]
        if all(is_integral(kind) for kind in kinds):
            return BIGINT
        if all(is_number(kind) for kind in kinds):
            return DOUBLE
        if all(is_interval(kind) for kind in kinds):
            return kinds[0]
        several = ", ".join(sorted({str(kind) for kind in kinds}))
        return self.refuse(tree, f"has several types: {several}", "Cast one of them")

    def compare(self, tree: Tree, name: str, one: Tree, other: Tree) -> None:
        kind = self.kind_of(tree, [one, other])
        if is_coded(kind) and not (kind == STRING or isinstance(kind, Decimal) or str(kind) == "binary"):
            self.refuse(tree, f"compares {kind}", "Compare a part of it, or to_json of it")
        # a > b is b < a, a <= b is not b < a
        swapped = name in (">", "<=")
        for side in (other, one) if swapped else (one, other):
            self.typed(side, kind)
        real = is_real(kind)
        if name == "=":
            self.steps.append(Op.EQUAL_REAL if real else Op.EQUAL)
        elif name == "<=>":
            self.steps.append(Op.SAME_REAL if real else Op.SAME)
        else:
            self.steps.append(Op.LESS_REAL if real else Op.LESS)
            if name in ("<=", ">="):
                self.steps.append(Op.NOT)

    def arithmetic(self, tree: Tree, name: str, one: Tree, other: Tree) -> Type:
        left, right = self.kind_of(tree, [one]), self.kind_of(tree, [other])
        if is_datetime(left) or is_interval(left) or is_datetime(right) or is_interval(right):
            return self.moments(tree, name, (one, left), (other, right))
        if not (is_number(left) and is_number(right)):
            self.refuse(tree, f"computes with {left} and {right}", "Cast them to numbers")
        kind = self.widest(tree, [left, right])
        whole = is_integral(kind) and name != "/"
        for side in (one, other):
            self.typed(side, BIGINT if whole else DOUBLE)
        if name in _ARITHMETIC:
            self.steps.append(_ARITHMETIC[name][0 if whole else 1])
        elif name == "/":
            self.steps.append(Op.DIVIDE)
        elif whole:
            self.steps.append(Op.QUOTIENT if name == "div" else Op.REMAINDER)
        else:
            self.refuse(tree, "computes with a remainder of real numbers", "Cast both sides to bigint")
        return BIGINT if whole else DOUBLE

    def moments(self, tree: Tree, name: str, left: tuple[Tree, Type], right: tuple[Tree, Type]) -> Type:
        """Differences of moments, and moments that are moved by an interval."""
        one, other = (_INTERVAL if is_interval(kind) else str(kind) for _, kind in (left, right))
        results = {
            ("-", "timestamp", "timestamp"): _INTERVAL,
            ("-", "timestamp", _INTERVAL): "timestamp",
            ("+", "timestamp", _INTERVAL): "timestamp",
            ("+", _INTERVAL, "timestamp"): "timestamp",
            ("+", _INTERVAL, _INTERVAL): _INTERVAL,
            ("-", _INTERVAL, _INTERVAL): _INTERVAL,
        }
        result = results.get((name, one, other))
        if result is None or any(is_months(kind) for _, kind in (left, right)):
            self.refuse(tree, f"computes with {left[1]} and {right[1]}", "Use timestamps and intervals")
        for side, _ in (left, right):
            self.value(side)
        self.steps.append(_ARITHMETIC[name][0])
        return TIMESTAMP if result == "timestamp" else DAYS_TO_SECONDS


def _sees_nulls(tree: Tree) -> bool:
    return any(isinstance(part, Call) and part.name in _SEES_NULLS for part in walk(tree))
