"""The compiled calculus: verbs, dispatch, weights, features."""
