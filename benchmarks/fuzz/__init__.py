"""Random models beside oracles of their own: `python -m benchmarks.fuzz`."""
