"""What relaxations ask of each kind of region: maxima, soft maxima, projections, marginals."""
