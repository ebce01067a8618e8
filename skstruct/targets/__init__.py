"""Targets: true labels, and what errors cost."""
