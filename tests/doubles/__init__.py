"""Doubles of what the product talks to: a store in memory, a runtime without processes. Tests and benches use them."""
