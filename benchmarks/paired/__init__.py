"""Two checkouts in turn: what the rows of some benchmarks cost before a change and after it."""
