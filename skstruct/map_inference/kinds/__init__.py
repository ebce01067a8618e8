"""Operations of relaxations on each kind of region: maxima, soft maxima, projections, marginals."""
