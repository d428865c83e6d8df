"""The manifest is what was committed, or it is damaged."""

from __future__ import annotations

import pytest

from riverrun.errors import Corrupt
from riverrun.runtime.manifest import Manifest


def test_every_flipped_bit_of_a_manifest_is_named() -> None:
    """It holds small state as it is: a flipped bit there would be a wrong view."""
    manifest = Manifest(3, 2, {"n": {"0": {"version": 3, "tables": {"t": {"tail": b"rows"}}}}}, {"n": "f"})
    whole = manifest.encode()
    assert Manifest.decode(whole) == manifest
    for at in range(len(whole)):
        with pytest.raises(Corrupt, match="the manifest of a flow, which is kept with its views, is damaged"):
            Manifest.decode(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
