"""Models that go on learning: updates with new rows, in memory that does not grow."""
