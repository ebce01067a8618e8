"""GDMM on label sets."""
