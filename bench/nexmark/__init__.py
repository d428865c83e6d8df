"""B4: Nexmark, the benchmark of queries over an auction house: persons, their auctions, and bids on these."""
