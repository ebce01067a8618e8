"""Targets: true labels and the costs of errors."""
