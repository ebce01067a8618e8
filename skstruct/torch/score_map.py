"""ModuleMap: a PyTorch module as a score map of ProxLinearSSVM."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import torch

from ..scores import ScoreMap

_BLOCK = 4096


class ModuleMap(ScoreMap):
    """A PyTorch module that maps rows of features to scores of labels.

    Training starts from the parameters that the module has, in float64, and keeps those that need
    no gradient as they are. The module runs in evaluation mode: no dropout, no statistics of the
    batch. The user's module stays as it is; :meth:`to_module` makes a trained one. Read more in the
    :ref:`User Guide <torch_guide>`.

    Parameters
    ----------
    module : torch.nn.Module
        Called with a tensor of float64 of shape (n_rows, n_features); returns one of shape (n_rows,
        n_labels), or (n_rows, 1) where a structure scores items.
    rowwise : bool, default=False
        Whether the scores of a row depend on that row alone, so that rows of many samples may come
        in one call. If not, each call has the rows of one sample, in order: those of a sequence
        may go through a convolution or a recurrent layer.
    device : str, default="auto"
        Where it runs: "auto" is a GPU where there is one, else the CPU.

    Attributes
    ----------
    module_ : torch.nn.Module
        The copy that runs.

    See Also
    --------
    skstruct.torch.crf_loss : To train with an optimiser of PyTorch instead.

    Notes
    -----
    A module brings constant terms of its own: `fit_intercept` of the estimator changes nothing.
    Products with the Jacobian are those of ``torch.func``; where an operation has no forward
    derivative, they come from differentiating the backward pass.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skstruct.torch import ModuleMap
    >>> score_map = ModuleMap(torch.nn.Linear(2, 3), rowwise=True)
    >>> params = score_map.initialise(2, 3, np.random.default_rng(0))
    >>> params.shape, score_map.scores(params, np.ones((5, 2))).shape
    ((9,), (5, 3))
    """

    def __init__(
        self, module: torch.nn.Module, rowwise: bool = False, device: str = "auto"
    ) -> None:
        self.module = module
        self.rowwise = rowwise
        self.device = device

    def initialise(
        self,
        n_features: int,
        n_columns: int,
        rng: np.random.Generator,
        fit_intercept: bool = True,
    ) -> np.ndarray:
        """The parameters that the module has; nothing is drawn."""
        if not isinstance(self.module, torch.nn.Module):
            raise TypeError(f"module must be a torch.nn.Module, got {type(self.module).__name__}")
        if any(map(torch.nn.parameter.is_lazy, self.module.parameters())):
            raise ValueError(
                "module has lazy layers: call it on a row first, so that they have shapes"
            )
        device = self.device
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        self.module_ = deepcopy(self.module).to(device, torch.float64).eval()
        wanted = {name: p for name, p in self.module_.named_parameters() if p.requires_grad}
        if not wanted:
            raise ValueError("module has no parameters that need a gradient")
        self._shapes = {name: tuple(p.shape) for name, p in wanted.items()}
        self._has_forward_derivative = True
        flat = torch.cat([p.detach().reshape(-1) for p in wanted.values()])
        return flat.cpu().numpy().copy()

    def __getstate__(self) -> dict:
        # Whoever loads it may have no GPU: it runs on the CPU there until it is fitted.
        state = super().__getstate__()
        if "module_" in state:
            state = state | {"module_": deepcopy(state["module_"]).cpu()}
        return state

    def _tensor(self, array):
        device = next(self.module_.parameters()).device
        # A copy: modules may work in place, and rows may be the user's.
        array = np.ascontiguousarray(array)
        return torch.tensor(array, dtype=torch.float64, device=device)

    def _named(self, params):
        """The parameters of the module in a vector, views of it."""
        parts = params.split([int(np.prod(shape)) for shape in self._shapes.values()])
        shapes = self._shapes.items()
        return {name: part.reshape(s) for (name, s), part in zip(shapes, parts, strict=True)}

    def _run(self, params, rows):
        """Scores of rows, both tensors."""
        out = torch.func.functional_call(self.module_, self._named(params), (rows,))
        if not isinstance(out, torch.Tensor) or out.dim() != 2 or len(out) != len(rows):
            got = tuple(out.shape) if isinstance(out, torch.Tensor) else type(out).__name__
            raise ValueError(
                f"module must return a tensor of shape (n_rows, n_labels) for {len(rows)} rows, "
                f"got {got}"
            )
        return out.double()  # NumPy has no bfloat16

    def _blocks(self, n_rows):
        """Runs of rows that go through the module at once: a pass stores much."""
        size = _BLOCK if self.rowwise else max(n_rows, 1)
        return [slice(at, at + size) for at in range(0, n_rows, size)] or [slice(0, 0)]

    def scores(self, params: np.ndarray, rows: Any) -> np.ndarray:
        """Return the output of the module."""
        params = self._tensor(params)
        with torch.no_grad():
            found = [
                self._run(params, self._tensor(rows[block])).cpu().numpy()
                for block in self._blocks(rows.shape[0])
            ]
        return np.concatenate(found)

    def jvp(self, params: np.ndarray, rows: Any, tangent: np.ndarray) -> np.ndarray:
        """A forward derivative, or that of the backward pass."""
        params, tangent = self._tensor(params), self._tensor(tangent)
        found = [
            self._change(params, self._tensor(rows[block]), tangent).cpu().numpy()
            for block in self._blocks(rows.shape[0])
        ]
        return np.concatenate(found)

    def _change(self, params, rows, tangent):
        if self._has_forward_derivative:
            try:
                with torch.no_grad():
                    return torch.func.jvp(lambda p: self._run(p, rows), (params,), (tangent,))[1]
            except (NotImplementedError, RuntimeError):  # of an operation in the module
                self._has_forward_derivative = False
        with torch.enable_grad():
            leaf = params.clone().requires_grad_()
            out = self._run(leaf, rows)
            weights = torch.zeros_like(out, requires_grad=True)
            (gradient,) = torch.autograd.grad(out, leaf, weights, create_graph=True)
            return torch.autograd.grad(gradient, weights, tangent)[0]

    def vjp(self, params: np.ndarray, rows: Any, cotangent: np.ndarray) -> np.ndarray:
        """A backward pass."""
        leaf = self._tensor(params).clone().requires_grad_()
        total = torch.zeros_like(leaf)
        for block in self._blocks(rows.shape[0]):
            with torch.enable_grad():
                out = self._run(leaf, self._tensor(rows[block]))
            total += torch.autograd.grad(out, leaf, self._tensor(cotangent[block]))[0]
        return total.detach().cpu().numpy()

    def to_module(self, params: np.ndarray) -> torch.nn.Module:
        """A module with trained parameters.

        Parameters
        ----------
        params : ndarray of shape (n_params,)
            The parameters: ``score_params_`` of a fitted estimator.

        Returns
        -------
        torch.nn.Module
            A copy of the user's module, of its own type and on its own device.
        """
        module = deepcopy(self.module)
        own = dict(module.named_parameters())
        with torch.no_grad():
            for name, value in self._named(torch.from_numpy(params)).items():
                own[name].copy_(value)
        return module
