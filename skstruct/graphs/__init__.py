"""Structures: one file each for the public class and for its kernels."""
