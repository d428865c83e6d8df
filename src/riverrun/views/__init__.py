"""Views: results that flows keep up to date, in stores of their own.

Read `spec` and `epoch` (what goes in), `settled` (an epoch's changes, by key), `store` (the contract), then `view` (what
people use). Stores: `sql`, in SQLite or PostgreSQL; `derived`, views of a flow in other systems beside it.
"""

from riverrun.views.changelog import Change
from riverrun.views.epoch import Epoch, Incumbent, Last, StoreIdentity
from riverrun.views.selection import Condition, Selection
from riverrun.views.settled import Settled, settle
from riverrun.views.spec import ViewSpec
from riverrun.views.store import Store, identity_of_none, open_store
from riverrun.views.view import Snapshot, View

__all__ = [
    "Change",
    "Condition",
    "Epoch",
    "Incumbent",
    "Last",
    "Selection",
    "Settled",
    "Snapshot",
    "Store",
    "StoreIdentity",
    "View",
    "ViewSpec",
    "identity_of_none",
    "open_store",
    "settle",
]
