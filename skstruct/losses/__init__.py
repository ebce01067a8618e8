"""Task losses and training losses."""
