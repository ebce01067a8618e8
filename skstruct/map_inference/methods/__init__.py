"""Relaxations solved through their duals: messages between regions, and bounds at any of them."""
