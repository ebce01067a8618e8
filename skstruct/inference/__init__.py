"""Inference on plain arrays, usable alone."""
