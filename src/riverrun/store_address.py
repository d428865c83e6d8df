"""Where a view of a flow may be kept beside the home store: addresses as flows write them, as everybody may see them, and
as they are connected to.

A password never leaves an address but towards its store: what is written down or shown has `…` in its place. `${NAME}` in
an address is put in from the environment only when connecting, so other processes can connect, too.

>>> address = StoreAddress.parse("redis://:s3cret@cache/0?prefix=shop:&ttl=1h")
>>> address.public, address.kind
('redis://:…@cache/0?prefix=shop:&ttl=1h', 'redis')
>>> StoreAddress.parse("redis://:${CACHE}@cache/0").public
'redis://:${CACHE}@cache/0'
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qsl, quote, unquote

from riverrun.durations import micros
from riverrun.errors import Invalid, Unavailable, did_you_mean

StoreKind = Literal["redis", "search", "delta", "postgresql", "sqlite"]

FORMS = 'redis://HOST/0?prefix=shop:&ttl=1h, "search:", search:PATH, delta:PATH, postgresql://…, sqlite:PATH'
NAMES: Mapping[str, str] = {
    "redis": "Redis",
    "search": "a search index",
    "delta": "a Delta table",
    "postgresql": "PostgreSQL",
    "sqlite": "SQLite",
}

_HIDDEN = "…"
_KINDS = {"postgres": "postgresql", "rediss": "redis", **{kind: kind for kind in NAMES}}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_LOGIN = re.compile(r"(?P<user>[^:@]*)(?::(?P<password>.*))?@", re.DOTALL)
_OPTIONS = {"redis": ("prefix", "ttl")}
_SECRETS = ("password", "passfile", "sslpassword")  # options of PostgreSQL that nobody else shall see


@dataclass(frozen=True)
class StoreAddress:
    """An address that can be one. `public` is what is stored and shown; two views with the same one share a store."""

    kind: StoreKind
    public: str
    _text: str = field(repr=False, compare=False)

    @classmethod
    def parse(cls, text: object) -> StoreAddress:
        """`Invalid` without any part of the address in it, for one that no store has."""
        scheme = _SCHEME.match(text) if isinstance(text, str) else None
        name = scheme[1].lower() if scheme else ""
        if name not in _KINDS or not isinstance(text, str):
            what = f"there is no store for {name}:" if name else "to is the address of a store"
            hint = f"{did_you_mean(name, _KINDS)}. " if name and did_you_mean(name, _KINDS).startswith("Did") else ""
            raise Invalid(what, hint=f"{hint}A view goes to {FORMS}; without to= it is in the river's own store")
        kind: StoreKind = _KINDS[name]  # type: ignore[assignment]
        rest = text[len(name) + 1 :]
        if kind in ("redis", "postgresql"):
            if not rest.startswith("//"):
                raise Invalid(f"an address of {NAMES[kind]} begins with {name}://")
            address = cls(kind, _without_password(name, rest[2:]), text)
        else:
            public = _at(kind, rest)
            address = cls(kind, public, public)
        address.options()
        return address

    @property
    def place(self) -> str:
        """How errors name the store."""
        return f"{NAMES[self.kind].removeprefix('a ')} {_shown(self.public)}"

    @property
    def path(self) -> str:
        """What follows the scheme, of a store that is files; "" for the one in the river."""
        return self.connectable().partition(":")[2]

    def options(self) -> dict[str, str]:
        """What follows the question mark of a Redis address."""
        known = _OPTIONS.get(self.kind)
        if known is None:
            return {}
        found = dict(parse_qsl(self.public.partition("?")[2], keep_blank_values=True))
        for name in found:
            if name not in known:
                raise Invalid(
                    f"an address of {NAMES[self.kind]} has no option {name!r}", hint=did_you_mean(name, known)
                )
        if "ttl" in found and micros(found["ttl"]) < 1000:
            raise Invalid(f"ttl={found['ttl']} is no time that Redis can keep rows for", hint='Write "ttl=1h"')
        return found

    def connectable(self, environ: Mapping[str, str] | None = None) -> str:
        """The whole address. `Unavailable` where a variable is not set, or a password was not stored."""
        given = os.environ if environ is None else environ

        def value(found: re.Match[str]) -> str:
            if found[1] not in given:
                raise Unavailable(
                    f"{self.place}: the environment has no {found[1]}", hint=f"Set {found[1]} to its value"
                )
            plain = given[found[1]]
            return quote(plain, safe="") if self.kind in ("redis", "postgresql") else plain

        if _HIDDEN in self._text and self.kind in ("redis", "postgresql"):
            raise Unavailable(
                f"{self.place}: its password is known to the run of the flow only, since it is stored nowhere",
                hint="Write ${NAME} in the address instead, and set NAME in the environment of whoever connects",
            )
        return _VARIABLE.sub(value, self._text)

    def suffixed(self, suffix: str) -> StoreAddress:
        """Where a replay of the flow under another name goes: a Delta table is one view, and is not its."""
        return StoreAddress.parse(self._text + suffix) if suffix and self.kind == "delta" else self

    def scrub(self, text: str) -> str:
        """A message of a client's without what is secret in the address."""
        try:
            whole = self.connectable()
        except Unavailable:
            return text
        login = _LOGIN.match(whole.partition("://")[2].partition("?")[0])
        given = [login["password"] or ""] if login else []
        given += [value for name, value in parse_qsl(whole.partition("?")[2]) if name in _SECRETS]
        for secret in sorted({part for one in given for part in (one, unquote(one)) if part}, key=len, reverse=True):
            text = text.replace(secret, _HIDDEN)
        return text


def _without_password(scheme: str, rest: str) -> str:
    before, mark, query = rest.partition("?")
    login = _LOGIN.match(before)
    if login is not None and login["password"] is not None and not _is_named(login["password"]):
        before = f"{login['user']}:{_HIDDEN}@{before[login.end() :]}"
    pairs = []
    for pair in query.split("&") if mark else ():
        name, _, value = pair.partition("=")
        secret = unquote(name).lower() in _SECRETS and not _is_named(value)
        pairs.append(f"{name}={_HIDDEN}" if secret else pair)
    return f"{scheme}://{before}{mark}{'&'.join(pairs)}"


def _is_named(secret: str) -> bool:
    """Whether there is nothing secret in it: it is empty, or comes from the environment whole."""
    return not _VARIABLE.sub("", secret)


def _at(kind: StoreKind, path: str) -> str:
    """A place in files: an absolute path, since processes have other directories; or a bucket."""
    if "://" in path:
        scheme, _, rest = path.partition("://")
        if kind != "delta":
            raise Invalid(f"{NAMES[kind]} is kept in files, not in {scheme}://…")
        if "@" in rest.partition("/")[0]:
            raise Invalid(
                f"an address in {scheme}:// has no login", hint="Give it by the environment: AWS_ACCESS_KEY_ID …"
            )
        bucket, _, below = rest.strip("/").partition("/")
        if not bucket or not below:
            raise Invalid(
                f"a table in {scheme}:// needs a path in its bucket, since others may be beside it",
                hint=f"Write {kind}:{scheme}://BUCKET/PATH",
            )
        return f"{kind}:{scheme}://{bucket}/{below}"
    if not path and kind != "search":
        raise Invalid(f"{kind}: needs a path", hint=f"Write {kind}:PATH")
    return f"{kind}:{os.path.abspath(path) if path and not path.startswith('${') else path}"


def _shown(public: str) -> str:
    return public.partition("?")[0] if "://" in public else public
