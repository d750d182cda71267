"""What default settings come to on tables of real data, in two checkouts."""
