"""The columns of a node: names in order, each with its Spark type, or None where only Spark can tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from riverrun import ddl
from riverrun.ddl import Array, Decimal, Map, Scalar, Struct, Type
from riverrun.errors import Invalid, NotFound, did_you_mean

BIGINT, INT, DOUBLE, BOOLEAN = Scalar("bigint"), Scalar("int"), Scalar("double"), Scalar("boolean")
STRING, BINARY, DATE, TIMESTAMP = Scalar("string"), Scalar("binary"), Scalar("date"), Scalar("timestamp")

# What every row of a topic carries beside its columns; expressions may read them, nobody may name a column so.
HIDDEN: Mapping[str, Type | None] = {
    "_time": TIMESTAMP,
    "_received": TIMESTAMP,
    "_key": None,
    "_partition": INT,
    "_offset": BIGINT,
}
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}


@dataclass(frozen=True)
class Schema(Mapping[str, "Type | None"]):
    """An ordered mapping of column name to type; names are found without regard to case, as Spark does.

    `open` means that there may be more columns, which only Spark knows (after `transform` without a schema).
    """

    columns: tuple[tuple[str, Type | None], ...]
    open: bool = False

    @classmethod
    def of(cls, columns: Iterable[tuple[str, Type | None]], open: bool = False) -> Schema:
        """A schema without repeated names."""
        made: dict[str, tuple[str, Type | None]] = {}
        for name, column_type in columns:
            if name.lower() in made:
                raise Invalid(f"column {name!r} is there twice", hint='Give one another name: "… as other"')
            made[name.lower()] = (name, column_type)
        return cls(tuple(made.values()), open)

    @classmethod
    def parse(cls, text: str) -> Schema:
        """The schema of a DDL string."""
        return cls(tuple((column.name, column.type) for column in ddl.parse(text)))

    def __getitem__(self, name: str) -> Type | None:
        for known, column_type in self.columns:
            if known.lower() == name.lower():
                return column_type
        if self.open:
            return None
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in (known.lower() for known in self)

    def resolve(self, name: str) -> str:
        """The column's name as it is declared; `NotFound` with the nearest name when there is none."""
        if not isinstance(name, str):
            raise Invalid(f"a column name is a string, not {name!r}")
        for known in self:
            if known.lower() == name.lower():
                return known
        if self.open:
            return name
        raise NotFound(f"there is no column {name!r}", hint=did_you_mean(name, self))

    def __str__(self) -> str:
        parts = [f"{ddl.quoted(name)} {'unknown' if known is None else known}" for name, known in self.columns]
        return ", ".join([*parts, "…"] if self.open else parts)


def is_numeric(column_type: Type | None) -> bool:
    """Whether it can be summed; an unknown type might be."""
    return (
        column_type is None
        or isinstance(column_type, Decimal)
        or (isinstance(column_type, Scalar) and column_type.name in (*_DIGITS, "float", "double"))
    )


def is_integral(column_type: Type | None) -> bool:
    """Whether it is known to be a whole number type."""
    return isinstance(column_type, Scalar) and column_type.name in _DIGITS


def is_orderable(column_type: Type | None) -> bool:
    """Whether values can be compared and grouped; Spark cannot do so with maps."""
    match column_type:
        case Map():
            return False
        case Array(element):
            return is_orderable(element)
        case Struct(fields):
            return all(is_orderable(column.type) for column in fields)
    return True


def is_scalar(column_type: Type | None) -> bool:
    """Whether it is one value, which is smaller or larger than another; an unknown type might be."""
    return not isinstance(column_type, Array | Map | Struct)


def is_key(column_type: Type | None) -> bool:
    """Whether rows can be found by it: all but arrays and maps, and structs with these."""
    if isinstance(column_type, Struct):
        return all(is_key(column.type) for column in column_type.fields)
    return not isinstance(column_type, Array | Map)


def as_decimal(column_type: Type) -> Decimal | None:
    """The decimal type that holds every value of a whole number type, or the decimal itself."""
    if isinstance(column_type, Decimal):
        return column_type
    if isinstance(column_type, Scalar) and column_type.name in _DIGITS:
        return Decimal(_DIGITS[column_type.name], 0)
    return None


def bounded(precision: int, scale: int) -> Decimal:
    """The type of a decimal's arithmetic within Spark's 38 digits: digits behind the point go first, down to six."""
    if precision <= 38:
        return Decimal(precision, scale)
    return Decimal(38, max(38 - (precision - scale), min(scale, 6)))


def common(left: Type | None, right: Type | None) -> Type | None:
    """The type Spark gives to values of both, by its rules; None when unknown or when there is none."""
    if left is None or right is None or left == right:
        return left if left == right else None
    names = {str(left), str(right)}
    if names == {"date", "timestamp"}:
        return TIMESTAMP
    if not (is_numeric(left) and is_numeric(right)):
        return None
    if names & {"float", "double"}:
        return DOUBLE  # float is skipped: it would lose digits of a whole number
    if is_integral(left) and is_integral(right):
        return max(left, right, key=lambda one: _DIGITS[str(one)])
    one, other = as_decimal(left), as_decimal(right)
    assert one and other
    scale = max(one.scale, other.scale)
    precision = max(one.precision - one.scale, other.precision - other.scale) + scale
    return Decimal(min(precision, 38), max(scale - max(precision - 38, 0), 0))


def comparable(left: Type | None, right: Type | None) -> bool:
    """Whether two columns can be equal; what is unknown might be."""
    return left is None or right is None or common(left, right) is not None
