"""Click-through rates: which results of a search are clicked within an hour, and which searches are not at all."""

import riverrun as rr

SEARCHES = rr.TopicSpec("searches", "search string, query string, at timestamp", key="search", time="at")
RESULTS = rr.TopicSpec("results", "search string, url string, at timestamp", key="search", time="at")
CLICKS = rr.TopicSpec("clicks", "search string, url string, at timestamp", key="search", time="at")
WITHIN_AN_HOUR = ("0 seconds", "1 hour")

flow = rr.Flow("click-through")
searches = flow.stream(SEARCHES, lateness="10 minutes")
results = flow.stream(RESULTS, lateness="10 minutes")
clicks = flow.stream(CLICKS, lateness="10 minutes").dedupe(["search", "url"], within="1 hour")  # people double-click

# A result comes out with its click, or without one when the hour is over: never both, never twice.
clicked = clicks.select("search", "url", "at as clicked_at")
shown = results.join(clicked, on=["search", "url"], within=WITHIN_AN_HOUR, how="left")

rates = shown.group("url").agg(shown=rr.count(), clicked=rr.count("clicked_at"))
flow.view("rates", rates.with_columns(rate="clicked / shown"))

hourly = shown.window(rr.tumbling("1 hour"), by="url")  # by the time the result was shown
flow.view("hourly", hourly.agg(shown=rr.count(), clicked=rr.count("clicked_at")))

unclicked = searches.join(clicks.select("search", "url"), on="search", within=WITHIN_AN_HOUR, how="left")
flow.view("unclicked", unclicked.where("url is null").drop("url"), key="search")
flow.topic("unclicked-searches", unclicked.where("url is null").drop("url"), key="search")
