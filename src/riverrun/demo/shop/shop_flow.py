"""A web shop: everything that `riverrun demo` computes. Copy it, change it, and run it: riverrun run shop_flow.py"""

import functools
import os

import riverrun as rr

# What happens, as it comes from browsers, tills and devices. Each topic says who it is about and when it happened.
PAGE_VIEWS = rr.TopicSpec("page_views", "user string, product string, at timestamp", key="user", time="at")
SEARCHES = rr.TopicSpec("searches", "search string, user string, query string, at timestamp", key="search", time="at")
CLICKS = rr.TopicSpec("clicks", "search string, product string, at timestamp", key="search", time="at")
ORDERS = rr.TopicSpec(
    "orders", "order string, user string, product string, pieces int, at timestamp", key="order", time="at"
)
READINGS = rr.TopicSpec(
    "readings", "device string, celsius double, measured timestamp, sent timestamp", key="device", time="measured"
)
PRODUCTS = rr.TopicSpec(
    "products", "product string, title string, price decimal(8, 2), at timestamp", key="product", time="at"
)
# What is so until it changes: the newest row of a user counts; of a product's prices, the one valid at the time.
PROFILES = rr.TopicSpec("profiles", "user string, country string, plan string", key="user", compact=True)
PRICES = rr.TopicSpec("prices", "product string, price decimal(8, 2), since timestamp", key="product", time="since")
SAVED = rr.TopicSpec("saved", "saved string, user string, query string", key="saved", compact=True)
TOPICS = (PAGE_VIEWS, SEARCHES, CLICKS, ORDERS, READINGS, PRODUCTS, PROFILES, PRICES, SAVED)

flow = rr.Flow("shop")
page_views = flow.stream(PAGE_VIEWS, lateness="3 seconds")
searches = flow.stream(SEARCHES, lateness="3 seconds")
clicks = flow.stream(CLICKS, lateness="3 seconds")
orders = flow.stream(ORDERS, lateness="3 seconds")
# Devices come and go: one that is silent is not waited for, one that lives in next year is put into quarantine.
readings = flow.stream(READINGS, lateness="2 seconds", producers="device", idle="5 seconds", max_skew="1 day")
products = flow.stream(PRODUCTS, lateness="3 seconds")
profiles = flow.table(PROFILES)
prices = flow.table(PRICES, idle="5 seconds")
saved = flow.table(SAVED)

# Every event, counted once: what `riverrun demo` compares with the log after it has killed the processing.
kinds = [
    page_views.select("'page view' as kind"),
    searches.select("'search' as kind"),
    clicks.select("'click' as kind"),
    orders.select("'order' as kind"),
    readings.select("'reading' as kind"),
    products.select("'new product' as kind"),
]
events = functools.reduce(rr.Stream.union, kinds)
flow.view("events", events.group("kind").agg(events=rr.count()))

# Page views with the visitor's profile. A view that comes after its window has closed corrects the window.
visits = page_views.join(profiles, on="user", how="left").with_columns(country="coalesce(country, 'unknown')")
per_country = visits.window(rr.tumbling("10 seconds"), by="country", late=rr.correct("1 minute"), emit="update")
flow.view("traffic", per_country.agg(views=rr.count(), visitors=rr.distinct("user")))

# Which searches lead to a click within ten seconds? People double-click; that is one click.
first_clicks = clicks.dedupe("search", within="30 seconds").select("search", "product as clicked")
answered = searches.join(first_clicks, on="search", within=("0 seconds", "10 seconds"), how="left")
asked = answered.group("query").agg(searches=rr.count(), clicked=rr.count("clicked"))
flow.view("queries", asked.with_columns(rate="round(clicked / searches, 3)"))
flow.topic("searches-without-click", answered.where("clicked is null").drop("clicked"), key="search")

# Nobody searches twenty times in two seconds, but for programs that read the shop out.
bursts = searches.match("hit{20}", by="user", within="2 seconds", measures={"last_query": "last(hit.query)"})
flow.view("bots", bursts.group("user").agg(bursts=rr.count(), last=rr.max("match_end"), query=rr.last("last_query")))

# Shoppers keep searches, and add or change them while this runs; the newest product that each of them has found.
found = products.percolate(saved, text="title").named("saved searches")
flow.view("wanted", found.latest("saved").select("saved", "user", "query", "title", "price"))

# Orders that were sent twice count once, at the price of their time; a price that becomes known late corrects them.
placed = orders.dedupe("order", within="5 minutes").as_of(prices, on="product", how="left", late=rr.correct("1 minute"))
priced = placed.with_columns(amount="pieces * price")
sales = priced.group("product").agg(orders=rr.count(), pieces=rr.sum("pieces"), revenue=rr.sum("amount"))
flow.view("bestsellers", sales.top(5, "revenue desc, product", rank="place"))
# Somebody wants to know of large orders. `riverrun demo` receives the messages itself; yours go to mailto://… or jsons://….
hook = os.environ.get("SHOP_ALERTS", "json://localhost:8401/alerts")
large = priced.where("amount >= 200").select("order", "user", "product", "pieces", "amount")
flow.alert("large-orders", large, to=hook, message="{user}: {pieces} × {product} for {amount}", every="10 seconds")

# Devices' clocks are wrong by minutes; what they measured counts when it happened. What is too late is put aside.
corrected = readings.clock(occurred="measured", sent="sent", by="device")
climate = corrected.window(rr.tumbling("10 seconds"), by="device", late=rr.side("late-readings"))
flow.view("climate", climate.agg(readings=rr.count(), mean=rr.avg("celsius"), highest=rr.max("celsius")))
