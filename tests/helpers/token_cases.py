"""Tokens that the tests of vectorizers share."""

TOKENS = [
    [("He", "PRP"), ("runs", "VBZ"), ("Home", "NN")],
    [("Yes", "UH")],
    [("She", "PRP"), ("runs", "VBZ")],
]
