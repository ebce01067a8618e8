"""Where the modules are now that models of earlier versions name: no import but Python's."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

# Modules that models of earlier versions name in their pickles and skops files, and where their
# classes are now.
MOVED = {
    "base": "estimators.base",
    "core.dispatch": "core.jit.dispatch",
    "core.threads": "core.parallel",
    "crf": "estimators.crf",
    "crfsuite": "estimators.crfsuite",
    "data.samples": "data.packing",
    "early_stopping": "estimators.early_stopping",
    "epochs": "estimators.base",
    "graphs.boxes.graph": "graphs.boxes",
    "graphs.candidates.graph": "graphs.candidates",
    "graphs.chain.graph": "graphs.chain",
    "graphs.chain.kernels": "graphs.chain",
    "graphs.general": "graphs.pairwise",
    "graphs.general.graph": "graphs.pairwise.graph",
    "graphs.general.grid": "graphs.pairwise.grid",
    "graphs.general.inputs": "graphs.pairwise.graph",
    "graphs.matching.graph": "graphs.matching",
    "graphs.multiclass.graph": "graphs.multiclass",
    "graphs.multilabel.graph": "graphs.multilabel",
    "graphs.pairwise.fields": "graphs.pairwise.base",
    "graphs.tree.graph": "graphs.tree",
    "inspection.grid_display": "inspection.displays",
    "inspection.map_display": "inspection.displays",
    "map_inference.constraints": "map_inference.factors",
    "map_inference.result": "map_inference.scoring",
    "metrics.node_metrics": "metrics.nodes",
    "metrics.chunk_metrics": "metrics.chunks",
    "preprocessing.alignment.features": "preprocessing.alignment",
    "preprocessing.blocks": "preprocessing.union",
    "preprocessing.frames": "preprocessing.columns",
    "preprocessing.localisation.patches": "preprocessing.localisation",
    "preprocessing.localisation.proposals": "preprocessing.localisation",
    "preprocessing.name_counts": "preprocessing.sequences",
    "preprocessing.template_codes": "preprocessing.template",
    "preprocessing.template_names": "preprocessing.template",
    "preprocessing.tokens": "preprocessing.sequences",
    "scores.conv": "scores.maps",
    "scores.hidden": "scores.maps",
    "scores.linear": "scores.maps",
    "scores.mlp": "scores.maps",
    "shards.names": "shards.reading",
    "ssvm": "estimators",
    "ssvm.base": "estimators.svm",
    "ssvm.bcfw": "estimators.svm_bcfw",
    "ssvm.casimir": "estimators.svm_casimir",
    "ssvm.extragradient": "estimators.svm_extragradient",
    "ssvm.gdmm": "estimators.svm_gdmm",
    "ssvm.prox_linear": "estimators.svm_prox_linear",
    "ssvm.subgradient": "estimators.svm_subgradient",
    "storage": "estimators.persistence",
    "typing": "core.typing",
}


class _Moved(ModuleType):
    """An old name of a module."""

    def __getattr__(self, name):
        # Code that scans all modules (inspect, warnings, pickle) must not load these.
        if name.startswith("__"):
            raise AttributeError(name)
        module = import_module(f"skstruct.{MOVED[self.__name__.removeprefix('skstruct.')]}")
        return getattr(module, name)


def answer_to_old_names() -> None:
    """Let models of earlier versions load: their files name modules that have moved."""
    for name in MOVED:
        # Not a finder: a module that has become a file has no modules below it.
        sys.modules[f"skstruct.{name}"] = _Moved(f"skstruct.{name}")
