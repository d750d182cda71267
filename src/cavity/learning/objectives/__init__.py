"""What learning minimises."""
