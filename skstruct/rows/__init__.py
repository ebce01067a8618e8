"""Rows of features: how weights become the potentials of parts."""
