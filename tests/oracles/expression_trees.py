"""Random expressions of Spark SQL over columns of every type, with hostile values: what the translation is tried on.

An expression is made of templates: `("number", 10, "{number:10} + {number:11}")` is a number that binds as + does, of two
numbers of which the right one must bind more. With some luck every form meets every other, with and without brackets.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

ATOM = 13
_SLOT = re.compile(r"\{(\w+)(?::(\d+))?\}")


@dataclass(frozen=True)
class Template:
    """How an expression of a kind is written, how strong it binds, and what it is made of."""

    kind: str
    level: int
    pieces: tuple[str, ...]
    slots: tuple[tuple[str, int], ...]


def template(kind: str, level: int, text: str) -> Template:
    pieces, slots, at = [], [], 0
    for slot in _SLOT.finditer(text):
        pieces.append(text[at : slot.start()])
        slots.append((slot[1], int(slot[2] or 0)))
        at = slot.end()
    return Template(kind, level, (*pieces, text[at:]), tuple(slots))


@dataclass(frozen=True)
class Expr:
    """A template with its slots filled."""

    template: Template
    parts: tuple[Expr, ...] = ()

    def sql(self, brackets: bool = False) -> str:
        """With the brackets that are needed, or with brackets around every part."""
        whole = self.template.pieces[0]
        slots = zip(self.parts, self.template.slots, self.template.pieces[1:], strict=True)
        for part, (_, least), piece in slots:
            inner = part.sql(brackets)
            bare = part.template.level >= least and not (brackets and part.template.level < ATOM)
            whole += (inner if bare else f"({inner})") + piece
        return whole

    @property
    def size(self) -> int:
        return 1 + sum(part.size for part in self.parts)

    def smaller(self) -> Iterator[Expr]:
        """Simpler expressions of the same kind, those that leave out most first."""
        yield from (part for part in self._inside() if part.template.kind == self.template.kind)
        if self.parts:
            yield from (Expr(atom) for atom in ATOMS.get(self.template.kind, ()))
        for at, part in enumerate(self.parts):
            for less in part.smaller():
                yield Expr(self.template, (*self.parts[:at], less, *self.parts[at + 1 :]))

    def _inside(self) -> Iterator[Expr]:
        for part in self.parts:
            yield part
            yield from part._inside()


# A kind that another one may stand for, with its likelihood.
_ALSO = {
    "number": {"whole": 3, "int": 3, "double": 3, "decimal": 3, "float": 1, "string": 0.15},
    "whole": {"int": 2, "long": 2, "small": 1},
    "moment": {"timestamp": 3, "date": 2, "ntz": 1, "string": 0.1},
    "scalar": {"number": 4, "string": 4, "boolean": 1, "moment": 2},
    "text": {"string": 6, "whole": 1, "date": 0.5, "timestamp": 0.5, "boolean": 0.3, "decimal": 0.5},
}

_ATOMS = r"""
small: `r`.`t`; `r`.`h`; 1Y; -128Y; 127Y; 2S; 32767S
int: `r`.`i`; `r`.`j`; 0; 1; -1; 2; 7; 100; 2147483647; -2147483648
long: `r`.`l`; `r`.`k`; 0L; -1L; 9223372036854775807L; -9223372036854775808L; 3000000000; 60L
float: `r`.`f`; 1.5F
double: `r`.`d`; `r`.`e`; 0D; -0.0D; 1.5D; 1e308; 0.1D; 1e-3; cast('NaN' as double); cast('-Infinity' as double)
decimal: `r`.`m`; `r`.`n`; `r`.`q`; `r`.`z`; 0.5; 1.10; 100.0; 99999999999999999999; 0.0
string: `r`.`s`; `r`.`u`; `r`.`v`; ''; 'a'; ' x '; 'é'; '😀z'; '12'; '2024-02-29'; 'a%b'; "it's"; '\t\\n'; 'A-b_C'
boolean: `r`.`b`; `r`.`c`; true; false; cast(null as boolean)
date: `r`.`y`; `r`.`o`; date'2024-02-29'; date'1969-12-31'; date'9999-12-31'; date'0001-01-01'
timestamp: `r`.`w`; `r`.`x`; timestamp'2024-02-29 12:34:56.789'; timestamp'1969-12-31 23:59:59.999999'
ntz: `r`.`a`; timestamp_ntz'2024-03-10 02:30:00'
interval: interval 1 day; interval 90 minutes; interval -2 hours; interval 1 day 2 hours
interval: interval '1.5' seconds; interval 3 weeks; interval 5 milliseconds
months: interval 1 month; interval -13 months; interval 2 years 3 months; interval 0 years
ints: `r`.`is`; array(1, 2, 3)
strings: `r`.`ss`; array('a', 'b')
struct: `r`.`p`
map: `r`.`mp`
binary: `r`.`bin`
index: 0; 1; 2; -1; `r`.`t`
"""

_TEMPLATES = r"""
number 10 {number:10} + {number:11}
number 10 {number:10} - {number:11}
number 11 {number:11} * {number:12}
number 11 {number:11} / {number:12}
number 11 {number:11} % {number:12}
number 12 - {number:12}
number 13 abs({number})
number 13 coalesce({number}, {number})
number 13 greatest({number}, {number}, {number})
number 13 least({number}, {number})
number 13 nullif({number}, {number})
number 13 if({boolean}, {number}, {number})
number 13 case when {boolean} then {number} when {boolean} then {number} else {number} end
number 13 round({number}, 2)
number 13 round({number})
number 13 floor({number})
number 13 ceil({number})
number 13 nvl({number}, 0)
number 13 sign({number})
number 13 signum({number})
number 13 negative({number})
number 13 positive({number})
number 13 ceiling({number})
number 13 ifnull({number}, 1)
number 13 nvl2({scalar}, {number}, {number})
long 11 {whole:11} div {whole:12}
whole 8 {whole:8} & {whole:9}
whole 6 {whole:6} | {whole:7}
whole 7 {whole:7} ^ {whole:8}
whole 12 ~ {whole:12}
whole 9 {whole:9} << 3
whole 9 {whole:9} >> 2
whole 9 {whole:9} >>> 5
whole 13 shiftleft({whole}, 2)
whole 13 shiftright({whole}, 1)
whole 13 shiftrightunsigned({whole}, 4)
whole 13 pmod({whole}, 7)
whole 13 mod({whole}, {whole})
whole 13 round({whole}, -2)
small 13 cast({number} as tinyint)
small 13 cast({boolean} as smallint)
small 13 cast({string} as smallint)
int 13 cast({number} as int)
int 13 cast({string} as int)
int 13 try_cast({string} as int)
int 13 try_cast({number} as int)
int 13 cast({timestamp} as int)
int 13 length({text})
int 13 len({text})
int 13 char_length({string})
int 13 character_length({string})
int 13 octet_length({string})
int 13 bit_length({string})
int 13 ascii({string})
int 13 instr({string}, {string})
int 13 locate({string}, {string})
int 13 locate({string}, {string}, 3)
int 13 position({string:5} in {string:5})
int 13 year({moment})
int 13 quarter({moment})
int 13 month({moment})
int 13 day({moment})
int 13 dayofmonth({moment})
int 13 date_part('month', {moment})
int 13 datepart('year', {date})
int 13 date_diff({moment}, {moment})
int 13 dayofweek({moment})
int 13 weekday({moment})
int 13 dayofyear({moment})
int 13 weekofyear({moment})
int 13 hour({moment})
int 13 minute({timestamp})
int 13 second({timestamp})
int 13 extract(hour from {timestamp:5})
int 13 extract(year from {date:5})
int 13 datediff({moment}, {moment})
int 13 unix_date({date})
int 13 size({ints})
int 13 array_size({ints})
int 13 cardinality({map})
int 13 size({map})
int 13 `r`.`is`[{index}]
int 13 element_at(`r`.`is`, {index})
int 13 {map:13}['a']
int 13 element_at({map}, 'b')
int 12 - {int:12}
int 10 {int:10} + {int:11}
int 10 {int:10} - {int:11}
int 11 {int:11} * {int:12}
int 11 {int:11} % {int:12}
long 13 cast({number} as bigint)
long 13 cast({timestamp} as bigint)
long 13 cast({string} as bigint)
long 13 unix_micros({timestamp})
long 13 unix_millis({timestamp})
long 13 unix_seconds({timestamp})
long 13 unix_timestamp({timestamp})
long 13 to_unix_timestamp({timestamp})
long 13 unix_timestamp({string}, 'yyyy-MM-dd')
long 13 timestampdiff(minute, {timestamp:5}, {timestamp:5})
long 13 {struct:13}.x
long 13 floor({double})
double 13 cast({number} as double)
double 13 cast({string} as double)
double 13 try_cast({string} as double)
double 13 cast({timestamp} as double)
double 13 sqrt({number})
double 13 nanvl({double}, {double})
double 13 round({double}, 1)
double 13 round({double}, 3)
double 13 months_between({moment}, {moment})
double 13 months_between({timestamp}, {timestamp}, false)
double 11 {double:11} * {double:12}
double 10 {double:10} - {double:11}
float 13 cast({number} as float)
float 13 cast({string} as float)
float 10 {float:10} + {float:11}
float 11 {float:11} * {float:12}
decimal 13 cast({whole} as decimal(12, 3))
decimal 13 cast({decimal} as decimal(8, 1))
decimal 13 cast({string} as decimal(14, 4))
decimal 13 try_cast({string} as decimal(5, 1))
decimal 13 cast({timestamp} as decimal(20, 4))
decimal 13 cast({boolean} as decimal(3, 1))
decimal 13 cast({number} as decimal(38, 18))
decimal 13 round({decimal}, 1)
decimal 10 {decimal:10} + {decimal:11}
decimal 10 {decimal:10} - {whole:11}
decimal 11 {decimal:11} * {decimal:12}
decimal 11 {decimal:11} / {decimal:12}
decimal 11 {decimal:11} / {whole:12}
decimal 11 {decimal:11} % {decimal:12}
string 10 {text:10} || {text:11}
string 13 concat({text}, '-', {text})
string 13 concat_ws(',', {text}, {text})
string 13 upper({text})
string 13 lower({string})
string 13 trim({string})
string 13 ltrim({string})
string 13 rtrim({string})
string 13 trim(both 'ax ' from {string:5})
string 13 trim(leading {string:5} from {string:5})
string 13 btrim({string}, 'é ')
string 13 substring({string}, 2, 3)
string 13 substring({string}, {int}, {int})
string 13 substr({string}, {int})
string 13 substring({string}, -3, 2)
string 13 left({string}, 2)
string 13 left({string}, {int})
string 13 right({string}, {int})
string 13 replace({string}, {string}, {string})
string 13 replace({string}, 'a')
string 13 translate({string}, 'abé', 'xy')
string 13 lpad({string}, 5, 'ab')
string 13 rpad({string}, 7)
string 13 repeat({string}, 2)
string 13 reverse({string})
string 13 chr({int})
string 13 char({int})
string 13 ucase({string})
string 13 lcase({string})
string 13 nvl2({scalar}, {string}, {string})
string 13 split_part({string}, ',', 2)
string 13 split_part({string}, 'a', -1)
string 13 split({string}, ',')[0]
string 13 split({string}, '\\.')[1]
string 13 element_at(split({string}, ','), -1)
string 13 md5({string})
string 13 sha1({string})
string 13 sha({string})
string 13 sha2({string}, 256)
string 13 hex({whole})
string 13 hex({string})
string 13 base64({binary})
string 13 cast({whole} as string)
string 13 cast({decimal} as string)
string 13 cast({date} as string)
string 13 cast({timestamp} as string)
string 13 cast({ntz} as string)
string 13 cast({boolean} as string)
string 13 date_format({timestamp}, 'yyyy-MM-dd HH:mm:ss')
string 13 date_format({moment}, 'yyyy-MM-dd')
string 13 date_format({timestamp}, "EEEE d MMM yy, h:mm a 'o''clock' SSS")
string 13 from_unixtime({int})
string 13 from_unixtime({int}, 'yyyyMMdd')
string 13 regexp_extract({string}, '([a-z]+)(\\d*)', 1)
string 13 regexp_extract({string}, '^(.*?)[- ](.*)$', 2)
string 13 regexp_extract({string}, '[^,]+', 0)
string 13 regexp_extract({string}, '[ax&]([^&,]*)', 1)
string 13 regexp_replace({string}, '[aeé]', '<$0>')
string 13 regexp_replace({string}, '(\\w)(\\d)', '$2$1')
string 13 regexp_replace({string}, '\\s+$', '')
string 13 {struct:13}.name
string 13 coalesce({string}, {string}, 'none')
string 13 nullif({string}, '')
string 13 if({boolean}, {string}, {string})
string 13 case {int} when 1 then {string} when {int} then 'b' end
string 13 greatest({string}, {string})
string 13 `r`.`ss`[{index}]
string 13 {strings:13}[0]
int 13 {ints:13}[1]
boolean 5 {number:5} = {number:6}
boolean 5 {number:5} < {number:6}
boolean 5 {number:5} >= {number:6}
boolean 5 {number:5} <=> {number:6}
boolean 5 {number:5} <> {number:6}
boolean 5 {string:5} = {string:6}
boolean 5 {string:5} < {string:6}
boolean 5 {string:5} <=> {string:6}
boolean 5 {moment:5} > {moment:6}
boolean 5 {moment:5} = {moment:6}
boolean 5 {moment:5} <=> {moment:6}
boolean 5 {boolean:5} = {boolean:6}
boolean 5 {interval:5} > {interval:6}
boolean 5 {months:5} <= {months:6}
boolean 5 {string:5} = {number:6}
boolean 5 {date:5} = {string:6}
boolean 2 {boolean:2} and {boolean:3}
boolean 1 {boolean:1} or {boolean:2}
boolean 3 not {boolean:3}
boolean 4 {scalar:5} is null
boolean 4 {scalar:5} is not null
boolean 4 {boolean:5} is true
boolean 4 {boolean:5} is not false
boolean 4 {number:5} is distinct from {number:5}
boolean 4 {number:5} in ({number}, {number}, 1)
boolean 4 {string:5} not in ({string}, 'a')
boolean 4 {moment:5} in ({moment}, {moment})
boolean 4 {number:5} between {number:5} and {number:5}
boolean 4 {moment:5} not between {moment:5} and {moment:5}
boolean 4 {string:5} between 'a' and {string:5}
boolean 4 {string:5} like 'a%'
boolean 4 {string:5} like '%b'
boolean 4 {string:5} like '%é%'
boolean 4 {string:5} like '_%_'
boolean 4 {string:5} like 'a\\%_'
boolean 4 {string:5} not like '%x_y%'
boolean 4 {string:5} ilike '%A%'
boolean 4 {string:5} ilike 'é%'
boolean 4 {string:5} rlike '^[a-z ]+$'
boolean 4 {string:5} rlike '\\d{2,}'
boolean 4 {string:5} rlike '(?i)a.c|é$'
boolean 13 startswith({string}, {string})
boolean 4 {string:5} regexp '^[a-z]'
boolean 13 regexp_like({string}, '[0-9]+')
boolean 13 equal_null({scalar}, {scalar})
boolean 13 endswith({string}, {string})
boolean 13 contains({string}, {string})
boolean 13 isnan({double})
boolean 13 isnull({scalar})
boolean 13 isnotnull({scalar})
boolean 13 cast({string} as boolean)
boolean 13 cast({number} as boolean)
boolean 13 array_contains({ints}, {int})
boolean 13 coalesce({boolean}, {boolean})
boolean 13 if({boolean}, {boolean}, {boolean})
date 13 cast({timestamp} as date)
date 13 cast({string} as date)
date 13 to_date({moment})
date 13 to_date({string}, 'yyyy-MM-dd')
date 13 to_date({string}, 'dd.MM.yyyy')
date 13 date_add({moment}, {days})
date 13 dateadd({moment}, {days})
date 13 date_sub({date}, {days})
date 13 add_months({moment}, {days})
date 13 last_day({moment})
date 13 trunc({moment}, 'month')
date 13 trunc({date}, 'WEEK')
date 13 trunc({date}, 'year')
date 13 make_date({int}, {int}, {int})
date 13 make_date(year({date}), month({date}), 1)
date 13 date_from_unix_date({days})
date 10 {date:10} + {days:11}
date 10 {date:10} - {days:11}
date 10 {date:10} + interval 2 days
date 10 {date:10} + {months:11}
date 13 coalesce({date}, {date})
date 13 if({boolean}, {date}, {date})
days 13 cast({number} as tinyint)
days 13 {small}
days 13 day({date})
days 13 length({string})
timestamp 10 {timestamp:10} + {interval:11}
timestamp 10 {timestamp:10} - {interval:11}
timestamp 10 {interval:10} + {timestamp:11}
timestamp 10 {timestamp:10} + {months:11}
timestamp 10 {date:10} + interval 3 hours
timestamp 13 cast({date} as timestamp)
timestamp 13 cast({string} as timestamp)
timestamp 13 cast({ntz} as timestamp)
timestamp 13 cast({int} as timestamp)
timestamp 13 date_trunc('hour', {timestamp})
timestamp 13 date_trunc('DAY', {moment})
timestamp 13 date_trunc('week', {timestamp})
timestamp 13 date_trunc('quarter', {timestamp})
timestamp 13 date_trunc('year', {timestamp})
timestamp 13 date_trunc('millisecond', {timestamp})
timestamp 13 to_timestamp({string})
timestamp 13 to_timestamp({string}, 'yyyy-MM-dd HH:mm:ss')
timestamp 13 to_timestamp({string}, "yyyy-MM-dd'T'HH:mm")
timestamp 13 timestamp_seconds({int})
timestamp 13 timestamp_millis({int})
timestamp 13 timestamp_micros({int})
timestamp 13 timestampadd(hour, {small:5}, {timestamp:5})
timestamp 13 timestampadd(month, {small:5}, {timestamp:5})
timestamp 13 coalesce({timestamp}, {timestamp})
timestamp 13 if({boolean}, {timestamp}, {date})
ntz 13 cast({timestamp} as timestamp_ntz)
ntz 13 cast({string} as timestamp_ntz)
ntz 10 {ntz:10} + {interval:11}
interval 10 {timestamp:10} - {timestamp:11}
interval 10 {date:10} - {date:11}
interval 10 {interval:10} + {interval:11}
interval 11 {small:11} * {interval:12}
interval 11 {interval:11} * {small:12}
interval 12 - {interval:12}
months 10 {months:10} + {months:11}
months 11 {months:11} * 2
ints 13 array({int}, {int}, null)
ints 13 if({boolean}, {ints}, {ints})
strings 13 array({string}, {string})
strings 13 split({string}, ',')
struct 13 named_struct('x', cast({whole} as bigint), 'name', {string})
struct 13 if({boolean}, {struct}, {struct})
binary 13 cast({string} as binary)
"""

# Computed by other libraries than Java's: only as a whole, since what is built on a last digit may be anything.
_APPROXIMATE = """
double 13 exp({number})
double 13 ln({number})
double 13 log10({number})
double 13 log2({number})
double 13 log({number}, {number})
double 13 pow({number}, {number})
double 13 power({number}, 2)
double 13 cbrt({number})
"""


def _templates(text: str) -> dict[str, list[Template]]:
    found: dict[str, list[Template]] = {}
    for line in text.strip().splitlines():
        kind, level, written = line.split(" ", 2)
        found.setdefault(kind, []).append(template(kind, int(level), written))
    return found


def _atoms(text: str) -> dict[str, list[Template]]:
    found: dict[str, list[Template]] = {}
    for line in text.strip().splitlines():
        kind, values = line.split(": ", 1)
        signed = [(ATOM - value.startswith("-"), value) for value in values.split("; ")]
        found.setdefault(kind, []).extend(Template(kind, level, (value.strip(),), ()) for level, value in signed)
    return found


ATOMS = _atoms(_ATOMS)
TEMPLATES = _templates(_TEMPLATES)
APPROXIMATE = _templates(_APPROXIMATE)["double"]
KINDS = [kind for kind in TEMPLATES if kind not in ("days", "interval", "months", "binary")]


class Generator:
    """Random expressions, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def expression(self) -> Expr:
        """Any expression; the first of a kind is as likely as the last."""
        if self.random.random() < 0.02:
            return self._filled(self.random.choice(APPROXIMATE), 2)
        kind = self.random.choice(KINDS)
        return self._filled(self.random.choice(TEMPLATES[kind]), self.random.choice((1, 1, 2, 2, 3, 4)))

    def _made(self, kind: str, depth: int) -> Expr:
        also = _ALSO.get(kind, {})
        atoms, templates = ATOMS.get(kind, []), TEMPLATES.get(kind, [])
        if also and (not (atoms or templates) or self.random.random() < 0.6 or (depth <= 0 and not atoms)):
            return self._made(self.random.choices(list(also), list(also.values()))[0], depth)
        if atoms and (depth <= 0 or not templates or self.random.random() < 0.25):
            columns = [atom for atom in atoms if "`" in atom.pieces[0]]
            return Expr(self.random.choice(columns if columns and self.random.random() < 0.7 else atoms))
        return self._filled(self.random.choice(templates), depth - 1)

    def _filled(self, chosen: Template, depth: int) -> Expr:
        return Expr(chosen, tuple(self._made(kind, depth) for kind, _ in chosen.slots))


def approximate(expression: Expr) -> bool:
    """Whether its last digits may differ."""
    return expression.template in APPROXIMATE
