"""What is secret in an address stays in it."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riverrun.alerts.address import Address, redact

SECRET = "s3cr3t-T0ken"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"json://ada:{SECRET}@example.com:8080/hook", "json://example.com"),
        (f"jsons://example.com/{SECRET}", "jsons://example.com"),
        (f"jsons://example.com/?+X-Token={SECRET}", "jsons://example.com"),
        (f"jsons://example.com?-token={SECRET}", "jsons://example.com"),
        (f"json://[::1]:80/{SECRET}", "json://[::1]"),
        (f"mailto://ada:{SECRET}@example.com", "mailto://example.com"),
        (f"mailto://ada@example.com:{SECRET}@smtp.example.com", "mailto://smtp.example.com"),
        (f"json://ada:{SECRET}/x@example.com/", "json://…"),
        (f"tgram://{SECRET}/123", "tgram://…"),
        (f"slack://{SECRET}/b/c", "slack://…"),
        (f"discord://123/{SECRET}", "discord://…"),
        (f"json://{SECRET} with blanks/", "json://…"),
        (f"json://ex%61mple:{SECRET}", "json://…"),
    ],
)
def test_only_scheme_and_host_are_shown(url: str, shown: str) -> None:
    address = Address(url)
    assert str(address) == shown
    assert SECRET not in repr(address)
    assert SECRET not in address.scrub(f"error for {url} and {SECRET} and {SECRET.upper()}")


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=4), st.sampled_from(range(5)))
@settings(max_examples=150, deadline=None)
def test_whatever_the_secret_is(secret: str, where: int) -> None:
    written = quote(secret, safe="")
    url = (
        f"jsons://ada:{written}@example.com/x",
        f"jsons://{written}:pw@example.com/x",
        f"jsons://example.com/a/{written}/b",
        f"jsons://example.com/a?+Key={written}",
        f"tgram://{written}/5",
    )[where]
    address = Address(url)
    assert str(address) in ("jsons://example.com", "tgram://…")
    if secret.lower() not in "could not reach":
        assert secret not in redact(f"could not reach <{secret}> <{written}> <{url}>", (address,))
