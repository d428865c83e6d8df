"""Whose a prefix of a bucket is: the river's with the view store that knows the state below it.

Two rivers with one prefix would take each other's flows for their own. So the first run leaves a note of itself, and a run
that has neither this view store nor one in its place, nor the directory, is refused. With a new store a river goes on: its
views are computed from the log again anyway. The note is no lock: of two rivers whose very first runs begin in the same
moment, the one whose note was overwritten is refused when it starts the next time.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress

import msgspec

from riverrun.errors import Conflict, Corrupt, Unavailable
from riverrun.object_folder import ObjectFolder
from riverrun.runtime.home import bucket_of
from riverrun.views import Store, StoreIdentity

_NOTE = ".owner"  # nobody calls a flow so


class _Owner(msgspec.Struct, frozen=True):
    """A river, by its view store, where that is, and where its own directory is."""

    store: int | None
    views: str
    directory: str

    def is_followed_by(self, other: _Owner) -> bool:
        """Whether the other is the same river, perhaps with new views, or on another machine."""
        return self.store == other.store or self.views == other.views or self.directory == other.directory


def refuse_foreign(checkpoints: str, views: Callable[[], StoreIdentity], rebuild: bool = False) -> None:
    """`Conflict` where the state of flows is in a bucket, below a prefix that is another river's. A `rebuild` takes it over,
    but for one that is inside of another's, or around it. Nothing is changed."""
    bucket = bucket_of(checkpoints)
    if bucket is None:
        return
    try:
        owner = _read(bucket)
    except Corrupt:
        if not rebuild:
            raise
        return
    if owner is None:
        _refuse_overlap(bucket)
    elif not rebuild and not owner.is_followed_by(_river(checkpoints, views())):
        raise Conflict(
            f"the flows in {bucket} are those of another river, whose views are in {owner.views}",
            hint="Give this river a prefix of its own (checkpoints). If those views are given up and this river takes"
            " their place, --rebuild computes the flow here, and the prefix is this river's from then on",
        )


def claim(checkpoints: str, store: Store) -> None:
    """From now on the prefix is that of the river with this store."""
    bucket = bucket_of(checkpoints)
    if bucket is None:
        return
    mine = _river(checkpoints, store.identity(number=True))
    with suppress(Corrupt):
        if _read(bucket) == mine:
            return
    ObjectFolder(bucket).write(_NOTE, msgspec.json.encode(mine))


def _refuse_overlap(bucket: str) -> None:
    """Folders of a prefix are flows: no prefix of another river is below one, or above."""
    below = [f"{bucket}/{name}" for name in ObjectFolder(bucket).folders()]
    parts = bucket.removeprefix("s3://").split("/")
    above = ["s3://" + "/".join(parts[:count]) for count in range(2, len(parts))]
    for other in above + below:
        with suppress(Unavailable):  # a login may be for this prefix alone
            if _read(other) is not None:
                raise Conflict(
                    f"{other} is the prefix of a river already, and {bucket} is {'below' if other in above else 'above'} it",
                    hint="Give this river a prefix of its own (checkpoints)",
                )


def _river(checkpoints: str, views: StoreIdentity) -> _Owner:
    return _Owner(views.number, views.place, f"{os.path.realpath(checkpoints)} on {socket.gethostname()}")


def _read(bucket: str) -> _Owner | None:
    try:
        return msgspec.json.decode(ObjectFolder(bucket).read(_NOTE), type=_Owner)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise Corrupt(
            f"{bucket}/{_NOTE}, which says whose the prefix is, cannot be read ({error})",
            hint="Remove it if no other river has this prefix: the next run writes it again",
        ) from None
