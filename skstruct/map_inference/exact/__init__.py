"""Exact algorithms for the models that have them."""
