"""L-BFGS and OWL-QN, whose vectors are worked on by blocks, in threads."""
