"""HTML and SVG as values. Text is escaped unless it is `Html` already, so an event cannot become part of a page.

>>> str(tag("p", "a < b", title='"x"'))
'<p title="&quot;x&quot;">a &lt; b</p>'
>>> str(tag("a", tag("b", "1"), href="/", class_="x", hidden=False))
'<a href="/" class="x"><b>1</b></a>'
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

# Control characters are shown by their picture: a terminal's escapes, or a NUL, say nothing in a page.
_PICTURES = {code: 0x2400 + code for code in range(32) if code not in (9, 10)} | {127: 0x2421}
# As html.escape does it, in one go with the above: most of what a page costs is this.
_ESCAPED: dict[int, int | str] = {**_PICTURES, **{ord(one): escape(one) for one in "&<>\"'"}}
_VOID = frozenset(("br", "hr", "img", "input", "link", "meta"))


class Html(str):
    """Text that is HTML. Made by `tag` and `join`; nothing that comes from outside is ever given to it."""

    __slots__ = ()


Content = Html | str | int | float | None | Iterable[Any]


def text(value: object) -> Html:
    """A value as HTML: escaped, unless it is `Html`. None is nothing, an iterable is its parts."""
    if isinstance(value, Html):
        return value
    if value is None:
        return Html("")
    if isinstance(value, str):
        return Html(value.translate(_ESCAPED))
    if isinstance(value, Iterable):
        return Html("".join(map(text, value)))
    return Html(escape(str(value)))


def tag(name: str, /, *content: Content, **attributes: object) -> Html:
    """An element. `class_` and `for_` lose their underscore, others become dashes; False and None leave one out."""
    said = "".join(
        _attribute(key, value) for key, value in attributes.items() if value is not None and value is not False
    )
    if name in _VOID:
        return Html(f"<{name}{said}>")
    return Html(f"<{name}{said}>{text(content)}</{name}>")


def join(*parts: Content) -> Html:
    """One after the other."""
    return text(parts)


def _attribute(key: str, value: object) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    return f' {name}="{text(f"{value:.6g}" if isinstance(value, float) else str(value))}"'
