"""Sphinx configuration."""

import re

import skstruct

project = "skstruct"
author = "the skstruct developers"
copyright = f"2026, {author}"
version = release = skstruct.__version__
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build"]
suppress_warnings = ["config.cache"]  # the gallery is configured with functions
autosummary_generate = True
numpydoc_show_class_members = False
autodoc_typehints = "none"  # the docstrings say more: shapes, units, choices
autodoc_mock_imports = ["torch"]  # the build does without
html_theme = "alabaster"
html_theme_options = {
    "description": f"Structured prediction as scikit-learn estimators. Version {release}"
}

# One story: what a chain is worth, text, what else a model can say, large problems, new structures.
_EXAMPLES = [
    "plot_digit_strings.py",
    "plot_ner_grid_search.py",
    "plot_chunking_templates.py",
    "plot_n_best_constrained.py",
    "plot_calibration.py",
    "plot_label_sets.py",
    "plot_ssvm_solvers.py",
    "plot_many_labels.py",
    "plot_snakes.py",
    "plot_photo_segmentation.py",
    "plot_document_graph.py",
    "plot_word_alignment.py",
    "plot_reranking.py",
    "plot_localisation.py",
    "plot_own_structure.py",
]


def _place_in_gallery(filename):
    return _EXAMPLES.index(filename) if filename in _EXAMPLES else len(_EXAMPLES)


sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": "/plot_",
    "within_subsection_order": _place_in_gallery,
    # An empty file name: draw the picture for the page, write none.
    "reset_argv": lambda gallery, script: ["--plot", ""],
    "show_memory": False,
    "parallel": 2,
}


def _skip_metadata_routing(app, what, name, item, skip, options):
    """Leave out what scikit-learn gives every estimator: requests of metadata."""
    return True if re.fullmatch(r"set_\w+_request|get_metadata_routing", name) else None


def setup(app):
    """Connect the hooks above."""
    app.connect("autodoc-skip-member", _skip_metadata_routing)
