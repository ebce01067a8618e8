"""Coordinate descent along an order of the variables, forward and back, as in TRW-S."""
