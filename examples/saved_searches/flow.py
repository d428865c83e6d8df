"""New listings of a property site, each with the saved searches that it meets."""

import riverrun as rr

LISTINGS = rr.TopicSpec(
    "listings",
    "id string, title string, description string, city string, rooms int, price double, at timestamp",
    key="id",
    time="at",
)
SEARCHES = rr.TopicSpec(
    "searches", "search_id string, user string, query string, city string, budget double", key="search_id", compact=True
)

flow = rr.Flow("property")
listings = flow.stream(LISTINGS, lateness="1 minute")
searches = flow.table(SEARCHES)  # one may be added, changed or deleted at any time: append to the topic

found = listings.percolate(
    searches,
    text=["title", "description"],
    where="row.city = query.city and row.price <= query.budget",
    stem="english",  # who looks for a garden finds gardens
).named("saved searches")

flow.topic("messages", found.select("user", "search_id", "id", "title", "price"), key="user")
flow.view("offers", found.select("search_id", "user", "id", "title", "price", "at"), key=["search_id", "id"])
flow.view(
    "best", found.top(3, by="price, id", per="search_id", rank="place").select("search_id", "id", "price", "place")
)
flow.view("searches_met", found.group("search_id").agg(offers=rr.count(), cheapest=rr.min("price")))
