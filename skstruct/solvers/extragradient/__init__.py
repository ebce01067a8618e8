"""Dual extragradient: the structural SVM as a saddle point."""
