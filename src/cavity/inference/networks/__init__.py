"""Networks: layers of units between variables, and a likelihood."""
