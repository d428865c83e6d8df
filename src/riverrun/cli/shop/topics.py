"""The topics of the shop's flow."""

from __future__ import annotations

from riverrun.cli.shop.flow import CLICKS, ORDERS, PAGE_VIEWS, PRICES, PROFILES, READINGS, SEARCHES

TOPICS = (PAGE_VIEWS, SEARCHES, CLICKS, ORDERS, READINGS, PROFILES, PRICES)

# Topic → what the view `events` calls its rows.
KINDS = {
    "page_views": "page view",
    "searches": "search",
    "clicks": "click",
    "orders": "order",
    "readings": "reading",
}
