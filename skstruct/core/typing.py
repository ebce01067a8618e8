"""Types of public signatures."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike


class SamplesLike(Protocol):
    """Whatever holds samples: list, tuple, array, CSR matrix, Series, RaggedArray, data frame."""

    def __len__(self) -> int: ...

    def __getitem__(self, key: Any, /) -> Any: ...


#: The task loss of a structural SVM: its name, costs by class, or a cost matrix.
LossLike: TypeAlias = str | Mapping[Any, float] | ArrayLike

#: A file or folder.
PathLike: TypeAlias = str | os.PathLike[str]

#: Values that scikit-learn's ``check_random_state`` takes.
RandomStateLike: TypeAlias = int | np.random.RandomState | None
