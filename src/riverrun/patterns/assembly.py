"""What a condition says across rows, as a program: each part that looks at one row is a column, the rest are steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal as Exact
from typing import NoReturn

from riverrun.ddl import Decimal, Type
from riverrun.errors import Invalid
from riverrun.flow.coercion import is_datetime, is_interval
from riverrun.flow.lexer import lexemes
from riverrun.flow.schema import BIGINT, BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP, is_integral
from riverrun.flow.syntax import VOID, Call, Cast, Constant, Name, Tree, walk
from riverrun.patterns.kinds import (
    DIGITS,
    SEES_NULLS,
    calculated,
    is_exact,
    is_nested,
    is_number,
    is_real,
    is_whole,
    is_wide,
    moved,
    scale_of,
    together,
)
from riverrun.patterns.navigation import CURRENT, NavigatedText, RowOf, TotalOf, ValueOf
from riverrun.patterns.program import (
    CodedConstant,
    ColumnSet,
    RowProgram,
    RowTotal,
    RowValue,
    Step,
)
from riverrun.patterns.tables import Op

_COMPARISONS = ("=", "<", "<=", ">", ">=", "<=>")
_ARITHMETIC = {"+": (Op.ADD, Op.ADD_REAL), "-": (Op.SUBTRACT, Op.SUBTRACT_REAL), "*": (Op.MULTIPLY, Op.MULTIPLY_REAL)}
_EXTREMES = {
    "greatest": (Op.LARGER, Op.LARGER_REAL),
    "least": (Op.SMALLER, Op.SMALLER_REAL),
}
_SPANS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_DEEPEST = 1000  # values on the stack


class ConditionAssembly:
    """One condition on its way to a program."""

    def __init__(self, name: str, rewritten: NavigatedText, columns: ColumnSet) -> None:
        self.name = name
        self.parts: Mapping[str, ValueOf | TotalOf] = rewritten.parts
        self.columns = columns
        self.steps: list[Step] = []
        self._kinds: dict[int, tuple[Tree, Type]] = {}

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
        made = RowProgram(tuple(self.steps))
        if made.depth > _DEEPEST:
            self.refuse(tree, f"has {made.depth} values open at once, more than {_DEEPEST}", "Nest it less")
        return made

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
        if is_wide(kind):
            column, kind = self.columns.add(f"cast({self.restored(tree.text)} as double)"), DOUBLE
        elif is_nested(kind):  # all that can be asked across rows is whether it is there
            column = self.columns.add(f"case when ({self.restored(tree.text)}) is not null then 1 end")
        self.steps.append(RowValue(Op.LOAD_REAL if is_real(kind) else Op.LOAD_WHOLE, column, row))
        return kind

    def constant(self, tree: Constant) -> Type:
        if tree.value is None:
            self.steps.append(None)
        elif isinstance(tree.value, Exact) and is_exact(tree.type):
            self.steps.append(int(tree.value.scaleb(scale_of(tree.type))))
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
        if function == "count" and is_nested(kind):
            column, kind = self.columns.add(f"case when ({total.sql}) is not null then 1 end"), BIGINT
        elif function != "count" and is_wide(kind):
            column, kind = self.columns.add(f"cast({total.sql} as double)"), DOUBLE
        elif function in ("sum", "avg") and not is_number(kind):
            self.refuse(tree, f"adds up {kind}")
        elif is_nested(kind):
            self.refuse(tree, f"compares {kind}", "Compare a part of it, or to_json of it")
        added = Decimal(DIGITS, scale_of(kind)) if is_exact(kind) else DOUBLE if is_real(kind) else BIGINT
        result = {"count": BIGINT, "avg": DOUBLE, "sum": added}.get(function, kind)
        self.steps.append(RowTotal(Op.TOTAL_REAL if is_real(result) else Op.TOTAL_WHOLE, function, variable, column))
        if function == "avg" and is_exact(kind):
            self.as_real(kind, was_real=True)
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
            case Call("case" | "if", parts):
                return self.choice(tree, parts)
            case Call("greatest" | "least" as name, (first, *rest)) if rest:
                kind = self.kind_of(tree, [first, *rest])
                return self.common(tree, [first, *rest], [_EXTREMES[name][is_real(kind)]] * len(rest))
            case Call("nullif", (one, other)):
                return self.choice(tree, [Call("=", (one, other), tree.text), Constant(VOID, None), one])
            case Call("isnan", (one,)):
                self.typed(one, DOUBLE)
                self.steps.append(Op.IS_NAN)
                return BOOLEAN
            case Call("datediff" | "date_diff", (end, start)):
                self.days(tree, end, start)
                return BIGINT
            case Call("timestampdiff", (Constant(value=str(unit)), start, end)) if unit in _SPANS:
                return self.span(tree, unit, start, end)
            case Call("abs" | "negative" | "positive" as name, (one,)):
                return self.signed(tree, name, one)
            case Call(name, (one, other)) if name in (*_ARITHMETIC, "/", "%", "mod", "div"):
                return self.arithmetic(tree, name, one, other)
            case Cast(inner, kind) if kind == DOUBLE or is_integral(kind):
                return self.cast(tree, inner, kind)
        hint = (
            "Across rows there are comparisons, arithmetic, and, or, not, case, coalesce, nullif, greatest, least, abs, "
            "isnan, datediff, timestampdiff; the rest is for one row"
        )
        return self.refuse(tree, "cannot be computed of several rows", hint)

    def truths(self, *trees: Tree) -> None:
        for tree in trees:
            if self.value(tree) not in (BOOLEAN, VOID):
                self.refuse(tree, "is not boolean")

    def cast(self, tree: Tree, inner: Tree, kind: Type) -> Type:
        was = self.value(inner)
        if kind == DOUBLE and (is_integral(was) or is_exact(was)):
            self.as_real(was)
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

        self.typed(values[-1], kind)
        for condition, value in reversed(list(zip(conditions, values, strict=False))):
            self.typed(value, kind)
            self.truths(condition)
            self.steps.append(Op.CHOOSE)
        return kind

    def common(self, tree: Tree, values: Sequence[Tree], operations: Sequence[Op]) -> Type:
        kind = self.kind_of(tree, values)
        self.typed(values[0], kind)
        for value, operation in zip(values[1:], operations, strict=True):
            self.typed(value, kind)
            self.steps.append(operation)
        return kind

    def typed(self, tree: Tree, kind: Type, scaling: Op = Op.MULTIPLY) -> None:
        """A value in a type that it has, or that is wider; `scaling` says what a decimal that is too large becomes."""
        if is_real(kind) and isinstance(tree, Constant) and isinstance(tree.value, Exact):
            self.steps.append(float(tree.value))
            return
        was = self.value(tree)
        if was in (VOID, kind):
            return
        if is_real(kind) and not is_real(was):
            self.as_real(was)
        elif is_exact(kind) and scale_of(kind) > scale_of(was):
            self.steps += [10 ** (scale_of(kind) - scale_of(was)), scaling]

    def as_real(self, was: Type, was_real: bool = False) -> None:
        """The last value as a real number, of whole numbers of its last digit."""
        if not was_real:
            self.steps.append(Op.TO_REAL)
        if scale_of(was):
            self.steps += [10.0 ** scale_of(was), Op.DIVIDE]

    def kind_of(self, tree: Tree, values: Sequence[Tree]) -> Type:
        """The type that values are compared in. Their steps are not added."""
        kinds = [kind for kind in map(self.type_of, values) if kind != VOID]
        if not kinds:
            return BIGINT
        found = together(kinds)
        if found is None:
            several = ", ".join(sorted({str(kind) for kind in kinds}))
            self.refuse(tree, f"has several types: {several}", "Cast one of them")
        return found

    def type_of(self, tree: Tree) -> Type:
        """The type of what a tree leaves. It is asked for at every level above it, and found once."""
        known = self._kinds.get(id(tree))
        if known is None:
            kept, self.steps = self.steps, []
            known = self._kinds[id(tree)] = (tree, self.value(tree))
            self.steps = kept
        return known[1]

    def compare(self, tree: Tree, name: str, one: Tree, other: Tree) -> None:
        kind = self.kind_of(tree, [one, other])
        if not (is_real(kind) or is_whole(kind) or kind == STRING or str(kind) == "binary"):
            self.refuse(tree, f"compares {kind}", "Compare a part of it, or to_json of it")
        # a > b is b < a, a <= b is not b < a
        sides = (other, one) if name in (">", "<=") else (one, other)
        if codes := self.loaded_codes(sides):
            self.steps += codes
        else:
            for side in sides:
                self.typed(side, kind, Op.SCALE)
        real = is_real(kind) and not codes
        if name == "=":
            self.steps.append(Op.EQUAL_REAL if real else Op.EQUAL)
        elif name == "<=>":
            self.steps.append(Op.SAME_REAL if real else Op.SAME)
        else:
            self.steps.append(Op.LESS_REAL if real else Op.LESS)
            if name in ("<=", ">="):
                self.steps.append(Op.NOT)

    def loaded_codes(self, sides: tuple[Tree, Tree]) -> list[Step]:
        """Loads two wide decimals of one type as codes, which compare exactly; nothing where they are something else."""
        loads = []
        for side in sides:
            rows = self.rows(side)
            row = next(iter(rows), None)
            if len(rows) != 1 or not isinstance(row, RowOf) or (row != CURRENT and _sees_nulls(side)):
                return []
            loads.append((self.columns.add(self.restored(side.text)), row))
        kinds = {self.columns.type_of(column) for column, _ in loads}
        if len(kinds) != 1 or not is_wide(kinds.pop()):
            return []
        return [RowValue(Op.LOAD_WHOLE, column, row) for column, row in loads]

    def arithmetic(self, tree: Tree, name: str, one: Tree, other: Tree) -> Type:
        left, right = (BIGINT if kind == VOID else kind for kind in (self.type_of(one), self.type_of(other)))
        if is_datetime(left) or is_interval(left) or is_datetime(right) or is_interval(right):
            return self.moments(tree, name, (one, left), (other, right))
        if not (is_number(left) and is_number(right)):
            self.refuse(tree, f"computes with {left} and {right}", "Cast them to numbers")
        kind = calculated(name, left, right)
        if name not in (*_ARITHMETIC, "/") and kind != BIGINT:
            self.refuse(tree, "computes with a remainder of numbers that are not whole", "Cast both sides to bigint")
        for side in (one, other):
            if name == "*" and is_exact(kind):
                self.value(side)  # digits behind the point add up
            else:
                self.typed(side, kind)
        if name in _ARITHMETIC:
            self.steps.append(_ARITHMETIC[name][is_real(kind)])
        elif name == "/":
            self.steps.append(Op.DIVIDE)
        else:
            self.steps.append(Op.QUOTIENT if name == "div" else Op.REMAINDER)
        return kind

    def moments(self, tree: Tree, name: str, left: tuple[Tree, Type], right: tuple[Tree, Type]) -> Type:
        """Differences of moments, and moments that are moved by an interval."""
        result = moved(name, left[1], right[1])
        if result is None:
            self.refuse(tree, f"computes with {left[1]} and {right[1]}", "Use timestamps and intervals")
        for side, _ in (left, right):
            self.value(side)
        self.steps.append(_ARITHMETIC[name][0])
        return result

    def days(self, tree: Tree, end: Tree, start: Tree) -> None:
        """The days between two dates, or the dates of two moments."""
        for side in (end, start):
            is_moment = self.type_of(side) == TIMESTAMP
            kind = self.value(Cast(side, DATE, text=f"cast({side.text} as date)") if is_moment else side)
            if kind not in (DATE, VOID):
                self.refuse(tree, f"is about {kind}", "Cast it to a date")
        self.steps.append(Op.SUBTRACT)

    def span(self, tree: Tree, unit: str, start: Tree, end: Tree) -> Type:
        """How many whole units lie between two moments."""
        for side in (end, start):
            kind = self.value(side)
            if kind not in (TIMESTAMP, VOID):
                self.refuse(tree, f"is about {kind}", "Cast it to a timestamp")
        self.steps += [Op.SUBTRACT, _SPANS[unit], Op.QUOTIENT]
        return BIGINT


def _sees_nulls(tree: Tree) -> bool:
    return any(isinstance(part, Call) and part.name in SEES_NULLS for part in walk(tree))
