"""What every family and method gave at one time, which later code must give again."""
