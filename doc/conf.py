"""Sphinx configuration."""

import skstruct

project = "skstruct"
author = "the skstruct developers"
release = skstruct.__version__
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
suppress_warnings = ["config.cache"]  # the gallery is configured with a function
autosummary_generate = True
numpydoc_show_class_members = False
html_theme = "alabaster"
html_theme_options = {"description": "Structured prediction as scikit-learn estimators"}
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": "/plot_",
    "reset_argv": lambda gallery, script: ["--plot", ""],
    "show_memory": False,
}
