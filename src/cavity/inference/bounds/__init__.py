"""Bounds over an order: layers or states whose messages need the beliefs of those before."""
