"""Addresses of stores: what they may be, and that nothing of a password is seen."""

from __future__ import annotations

import os

import pytest

from riverrun.errors import Invalid, Unavailable
from riverrun.store_address import StoreAddress

SECRET = "hunter2-s3cr3t"


@pytest.mark.parametrize(
    ("given", "public"),
    [
        ("redis://cache/0?prefix=shop:&ttl=1h", "redis://cache/0?prefix=shop:&ttl=1h"),
        (f"redis://:{SECRET}@cache/0", "redis://:…@cache/0"),
        (f"rediss://ada:{SECRET}@cache:6380/1?prefix=x", "rediss://ada:…@cache:6380/1?prefix=x"),
        (f"postgresql://ada:{SECRET}@host/db?sslmode=require", "postgresql://ada:…@host/db?sslmode=require"),
        (f"postgresql://host/db?user=ada&password={SECRET}", "postgresql://host/db?user=ada&password=…"),
        (f"postgres://ada:{SECRET}@x:{SECRET}@host/db", "postgres://ada:…@host/db"),
        ("redis://:${CACHE}@cache/0", "redis://:${CACHE}@cache/0"),
        (f"redis://:${{CACHE}}{SECRET}@cache/0", "redis://:…@cache/0"),
        ("search:", "search:"),
        ("search:/srv/words", "search:/srv/words"),
        ("delta:lake/orders", f"delta:{os.getcwd()}/lake/orders"),
        ("delta:s3://bucket/orders", "delta:s3://bucket/orders"),
        ("delta:s3://bucket/shop/orders/", "delta:s3://bucket/shop/orders"),
        ("sqlite:/srv/other.db", "sqlite:/srv/other.db"),
    ],
)
def test_what_everybody_may_see(given, public):
    address = StoreAddress.parse(given)
    assert address.public == public
    assert StoreAddress.parse(public).public == public
    assert SECRET not in repr(address) + str(address) + address.place


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("mysql://host/db", "there is no store for mysql:"),
        ("redi://host/0", "Did you mean 'redis'"),
        (SECRET, "to is the address of a store"),
        (7, "to is the address of a store"),
        ("redis:host", "begins with redis://"),
        (f"redis://h/0?password={SECRET}", "no option 'password'"),
        ("redis://h/0?tll=1h", "Did you mean 'ttl'"),
        ("redis://h/0?ttl=soon", "soon"),
        ("redis://h/0?ttl=0 s", "no time that Redis can keep rows for"),
        ("delta:", "delta: needs a path"),
        (f"delta:s3://key:{SECRET}@bucket/x", "has no login"),
        ("search:s3://bucket/x", "kept in files"),
        ("delta:s3://bucket", "needs a path in its bucket"),
        ("delta:s3:///orders", "needs a path in its bucket"),
    ],
)
def test_what_is_refused(given, said):
    with pytest.raises(Invalid) as caught:
        StoreAddress.parse(given)
    assert said in str(caught.value)
    assert SECRET not in str(caught.value)


def test_what_comes_from_the_environment():
    address = StoreAddress.parse("redis://ada:${CACHE}@cache/0")
    assert address.connectable({"CACHE": "a/b@c"}) == "redis://ada:a%2Fb%40c@cache/0"
    with pytest.raises(Unavailable, match="the environment has no CACHE. Set CACHE to its value"):
        address.connectable({})
    written = StoreAddress.parse(f"redis://:{SECRET}@cache/0")
    assert SECRET in written.connectable({})
    with pytest.raises(Unavailable, match=r"Write \$\{NAME\} in the address instead"):
        StoreAddress.parse(written.public).connectable({})
    assert written.scrub(f"no login with {SECRET}") == "no login with …"


def test_a_replay_has_a_table_of_its_own():
    assert StoreAddress.parse("delta:/srv/lake").suffixed("-audit").public == "delta:/srv/lake-audit"
    assert StoreAddress.parse("search:").suffixed("-audit").public == "search:"
