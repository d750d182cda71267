"""Plans: which fits follow one another, by kind of model, and which of them is kept."""
