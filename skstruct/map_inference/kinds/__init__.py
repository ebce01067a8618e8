"""Operations of relaxations on each kind of region: maxima, soft maxima, projections, marginals.

A new kind of factor is a class in :mod:`skstruct.map_inference.factors`, a code in
:mod:`skstruct.map_inference.regions`, a file here with its verbs, and a branch for each of these in
:mod:`skstruct.map_inference.kinds.verbs`, which says what they do.
"""
