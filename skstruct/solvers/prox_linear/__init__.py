"""Structural SVMs whose scores are no linear function: prox-linear steps, and subgradients."""
