"""Articles that mention a company, for those who follow it: 10 000 subscribers, each with a query of their own."""

import riverrun as rr

ARTICLES = rr.TopicSpec(
    "articles", "id string, source string, title string, body string, at timestamp", key="id", time="at"
)
SUBSCRIBERS = rr.TopicSpec(
    "subscribers", "subscriber string, query string, company string, source string", key="subscriber", compact=True
)

flow = rr.Flow("mentions")
articles = flow.stream(ARTICLES, lateness="1 minute").dedupe("id", within="1 day")
subscribers = flow.table(SUBSCRIBERS)

mentions = articles.percolate(
    subscribers,
    text=["title", "body"],
    where="query.source is null or row.source = query.source",
    fold=True,  # Café Zoë is also found as Cafe Zoe
)
flow.topic("news", mentions.select("subscriber", "company", "id", "title"), key="subscriber")
readers = mentions.group(["company", "id"]).agg(readers=rr.count(), title=rr.last("title"))
flow.view("readers", readers)
flow.view("companies", readers.group("company").agg(articles=rr.count(), sent=rr.sum("readers")))
hours = mentions.window(rr.tumbling("1 hour"), by="company")
flow.view("hourly", hours.agg(articles=rr.distinct("id"), subscribers=rr.distinct("subscriber")))
