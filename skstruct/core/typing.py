"""Types of public signatures."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike


class SamplesLike(Protocol):
    """Whatever holds samples: list, tuple, array, CSR matrix, Series, RaggedArray, data frame."""

    def __len__(self) -> int: ...

    def __getitem__(self, key: Any, /) -> Any: ...


#: The task loss of a structural SVM: its name, costs by class, or a cost matrix.
LossLike: TypeAlias = str | Mapping[Any, float] | ArrayLike

#: Weights of classes.
ClassWeightLike: TypeAlias = Mapping[Any, float] | Literal["balanced"] | None

#: A file or folder.
PathLike: TypeAlias = str | os.PathLike[str]

#: Values that scikit-learn's ``check_random_state`` takes.
RandomStateLike: TypeAlias = int | np.random.RandomState | None


class PassedOn:
    """Methods that pipelines and wrappers pass on to their model."""

    predict: Callable[..., np.ndarray]
    predict_chunks: Callable[..., np.ndarray]
    predict_entropy: Callable[..., np.ndarray]
    predict_log_likelihood: Callable[..., np.ndarray]
    predict_marginals: Callable[..., Any]  # a tuple with pairwise=True
    predict_proba: Callable[..., np.ndarray]
    predict_states: Callable[..., np.ndarray]
    predict_top_k: Callable[..., tuple[np.ndarray, ...]]
    sample: Callable[..., np.ndarray]
