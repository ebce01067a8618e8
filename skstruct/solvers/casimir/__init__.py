"""Catalyst-accelerated SVRG on smoothed losses."""
