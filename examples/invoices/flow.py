"""Invoices with the tax rate that was valid at the time of the sale, whenever its change became known."""

import riverrun as rr

SALES = rr.TopicSpec("sales", "sale string, country string, net decimal(12, 2), at timestamp", key="sale", time="at")
RATES = rr.TopicSpec("tax_rates", "country string, rate decimal(4, 3), since timestamp", key="country", time="since")

flow = rr.Flow("invoices")
sales = flow.stream(SALES, lateness="1 day")
rates = flow.table(RATES)

# Answered at once from the rates known; a rate change that comes up to 60 days late takes the invoice back and issues it anew.
rated = sales.as_of(rates, on="country", how="left", late=rr.correct("60 days"))
invoices = rated.with_columns(tax="cast(net * rate as decimal(12, 2))")
flow.view("invoices", invoices, key="sale")
flow.topic("invoice-changes", invoices, key="sale")

flow.view("taxes", invoices.group(["country", "rate"]).agg(sales=rr.count(), net=rr.sum("net"), tax=rr.sum("tax")))
flow.view("unrated", invoices.where("rate is null").select("sale", "country", "at"), key="sale")
