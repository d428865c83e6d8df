"""The stores of views, and what flows have left."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from riverrun.doctor.check import Check
from riverrun.errors import NotFound, RiverrunError

if TYPE_CHECKING:
    from riverrun.river import River


def check_views(river: River) -> Iterator[Check]:
    """The store of views. A file is whole and of the format that is known; a server answers, and its logins may do no more
    than they need."""
    if "//" not in river.views_address:
        if os.path.exists(river.views_address):
            from riverrun.doctor.flows import store_trouble

            trouble = store_trouble(river)
            found = f"{river.views_address}: an epoch is one transaction, for processes of this machine"
            yield Check("views", "failed", *trouble) if trouble else Check("views", "ok", found)
        return
    from riverrun.views import open_store

    try:
        with open_store(river.views_address, create=False, read=river.views_read) as store:
            concerns = store.concerns()
    except NotFound as error:
        yield Check("views", "ok", error.message)
    except RiverrunError as error:
        yield Check("views", "failed", error.message, error.hint or "Correct RIVERRUN_VIEWS")
    else:
        yield Check("views", "ok", "the view store answers: an epoch is one transaction, for every machine")
        yield from (Check("views", "warning", found, fix) for found, fix in concerns)


def check_flows(river: River) -> Iterator[Check]:
    """What every flow has left: its checkpoint can be read, and belongs to its views."""
    from riverrun.doctor.flows import flow_states

    if "//" not in river.views_address and not os.path.exists(river.views_address):
        return
    try:
        for flow, state in flow_states(river):
            if isinstance(state, RiverrunError):
                yield Check(f"flow {flow}", "failed", state.message, state.hint or "Rebuild it")
            else:
                yield Check(f"flow {flow}", "ok", state)
    except RiverrunError:  # which has been said of the views
        return


def check_stores(river: River) -> Iterator[Check]:
    """Other stores that views are in: each answers."""
    from riverrun.doctor.flows import ask_stores

    for place, error in ask_stores(river):
        if error is None:
            yield Check("stores", "ok", f"{place} answers")
        else:
            fix = error.hint or "Start it, or correct the address in the flow; epochs wait for it meanwhile"
            yield Check("stores", "failed", error.message, fix)
