"""The web shop of `riverrun demo`: `shop_flow` is what it computes, `events` what happens in it, the rest keeps it going."""
