"""Page views with what is known of the visitor at that moment."""

import riverrun as rr

VIEWS = rr.TopicSpec("page_views", "user string, page string, at timestamp", key="user", time="at")
PROFILES = rr.TopicSpec("profiles", "user string, country string, plan string", key="user", compact=True)

flow = rr.Flow("activity")
views = flow.stream(VIEWS, lateness="1 minute")
profiles = flow.table(PROFILES)  # the newest row of each user; a tombstone deletes

seen = views.join(profiles, on="user", how="left")  # how="left": a view of somebody unknown is a view, too
flow.view("activity", seen)
flow.topic("enriched-views", seen, key="user")

flow.view("countries", seen.group("country").agg(views=rr.count(), visitors=rr.distinct("user")))
plans = seen.window(rr.tumbling("10 minutes"), by="plan", emit="update")
flow.view("plans", plans.agg(views=rr.count(), pages=rr.distinct("page")))

flow.view("people", profiles.group("country").agg(users=rr.count()))  # the table as it is now
