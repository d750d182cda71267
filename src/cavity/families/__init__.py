"""Families of models: what each is for, what can be asked of it, and where the rest of it is."""
