"""Sphinx configuration."""

import inspect
import json
import os
import pydoc
import re
import sys
import tomllib
from html import escape, unescape
from pathlib import Path

from docutils import nodes
from numpydoc.docscrape_sphinx import SphinxDocString
from sklearn.pipeline import FeatureUnion, Pipeline
from sphinx.util.inspect import stringify_signature

import skstruct
from skstruct.graphs import Graph

DOC = Path(__file__).parent
sys.path[:0] = [str(DOC / "_ext"), str(DOC)]
import check_build  # noqa: E402

project = "skstruct"
author = "the skstruct developers"
copyright = f"2026, {author}"
version = release = skstruct.__version__
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinxcontrib.bibtex",
    "sphinx_gallery.gen_gallery",
    "mathml",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "**sg_execution_times.rst"]
suppress_warnings = ["config.cache"]  # the gallery is configured with functions
autosummary_generate = True
autosummary_generate_overwrite = True
numpydoc_show_class_members = False


def _structures():
    """Methods of each structure that :class:`Graph` lacks; it documents the others, for authors."""
    classes = {name: getattr(skstruct, name) for name in skstruct.__all__}
    return {
        f"skstruct.{name}": [
            method
            for method, _ in inspect.getmembers(item, inspect.isroutine)
            if method[0] != "_" and not hasattr(Graph, method)
        ]
        for name, item in classes.items()
        if inspect.isclass(item) and issubclass(item, Graph)
    }


autosummary_context = {
    "listed_attributes": check_build.listed_attributes,
    "structures": _structures(),
    "estimators": check_build.estimators(),
    "is_shown": lambda name: not re.fullmatch(rf"_.*|count|index|{check_build.NOT_SHOWN}", name),
}
# numpydoc would put the first line of a property in place of what the class says of it.
_process = SphinxDocString._process_param
SphinxDocString._process_param = lambda self, name, text, _: _process(self, name, text, False)
autodoc_typehints = "none"  # the docstrings say more: shapes, units, choices
autodoc_mock_imports = ["torch"]  # the build does without
bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "alpha"
# Only stored inventories: a build asks no network for anything.
_MANUALS = {
    "python": "https://docs.python.org/3",
    "numpy": "https://numpy.org/doc/stable",
    "scipy": "https://docs.scipy.org/doc/scipy",
    "sklearn": "https://scikit-learn.org/stable",
    "joblib": "https://joblib.readthedocs.io/en/stable",
    "numba": "https://numba.readthedocs.io/en/stable",
    "pandas": "https://pandas.pydata.org/docs",
    "matplotlib": "https://matplotlib.org/stable",
}
intersphinx_mapping = {name: (url, f"_intersphinx/{name}.inv") for name, url in _MANUALS.items()}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = f"skstruct {release}"
html_static_path = ["_static"]
html_favicon = "_static/logo-light.svg"
# Pages without others below them.
_ALONE = "index getting_started migration command_line references changelog".split()
html_sidebars = {page: [] for page in _ALONE}
html_css_files = ["skstruct.css"]
html_search_scorer = str(DOC / "search_scorer.js")
html_math_renderer = "mathml"
html_show_sourcelink = False
toc_object_entries_show_parents = "hide"
# Addresses of the project: icons in the bar once pyproject.toml has them.
_URLS = tomllib.loads((DOC.parent / "pyproject.toml").read_text("utf-8"))["project"].get("urls", {})
html_theme_options = {
    "logo": {
        "text": "skstruct",
        "image_light": "_static/logo-light.svg",
        "image_dark": "_static/logo-dark.svg",
    },
    "icon_links": [
        {"name": name, "url": url, "icon": "fa-solid fa-code-branch"} for name, url in _URLS.items()
    ],
    "navbar_align": "left",
    "header_links_before_dropdown": 5,
    "navbar_end": ["theme-switcher", "navbar-icon-links"],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "show_toc_level": 2,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

# Versions in the bar, and their folders on the site; only with the site's address, which a build
# for a disk has not.
_VERSIONS = {release: ""}
_SITE = os.environ.get("DOCS_URL", "").rstrip("/")
if _SITE:
    html_baseurl = f"{_SITE}/"
    html_theme_options |= {
        "switcher": {"json_url": f"{_SITE}/versions.json", "version_match": release},
        "check_switcher": False,  # it comes with this build
        "navbar_end": ["version-switcher", "theme-switcher", "navbar-icon-links"],
    }

nitpicky = True
# Types in the docstrings' lists of parameters, where a page exists for them.
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"
numpydoc_xref_aliases = {
    "ndarray": "numpy.ndarray",
    "DataFrame": "pandas.DataFrame",
    "Series": "pandas.Series",
    "Bunch": "sklearn.utils.Bunch",
    "Pipeline": "sklearn.pipeline.Pipeline",
    "RandomState": "numpy.random.RandomState",
    "Axes": "matplotlib.axes.Axes",
    "Path": "pathlib.Path",
    "RaggedArray": "skstruct.RaggedArray",
    "Graph": "skstruct.graphs.Graph",
    "FactorGraph": "skstruct.map_inference.FactorGraph",
    "ScoreMap": "skstruct.scores.ScoreMap",
    "Shards": "skstruct.datasets.Shards",
}

# What the gallery shows in which order: sections, and the pages of each.
_GALLERY = {
    "text": """token_features crfsuite_tutorial ner_grid_search tune errors
        confident_chunks chunking_templates token_classifier network_tagger dependency_trees
        word_segmentation costs l1_path""",
    "time_series": "activity_recognition edge_features segments hidden_states pitch",
    "handwriting": "n_best_constrained calibration partial_labels smoothed_classifier order",
    "label_sets": "scene label_sets",
    "graphs": "scribbles photo_segmentation snakes typed_snakes document_graph",
    "items": "word_alignment localisation reranking",
    "map_inference": "map_segmentation map_bounds",
    "training": "callbacks ssvm_solvers many_labels extragradient nonlinear_scores own_structure",
    "deploy": "deployment",
}
_PAGES = " ".join(_GALLERY.values()).split()


def _place_in_gallery(filename):
    name = filename.removesuffix(".py").removeprefix("plot_")
    return _PAGES.index(name) if name in _PAGES else len(_PAGES)


sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": "/plot_",
    "ignore_pattern": r"^(handler|tag|train)\.py$",
    # "Examples using ..." under each class and function
    "doc_module": ("skstruct",),
    "backreferences_dir": "generated/backreferences",
    "subsection_order": [f"../examples/{section}" for section in _GALLERY],
    "within_subsection_order": _place_in_gallery,
    # An empty file name: draw the picture for the page, write none.
    "reset_argv": lambda gallery, script: ["--plot", ""],
    "ignore_repr_types": r"matplotlib|Display",  # what is drawn is seen
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,  # a page that asks the network for scripts
    "parallel": 2,
}


def _skip_inherited(app, what, name, item, skip, options):
    """Leave out what scikit-learn asks of estimators and callbacks, and Python of NamedTuples."""
    if re.fullmatch(check_build.NOT_SHOWN, name):
        return True
    of_others = (getattr(FeatureUnion, name, None), getattr(Pipeline, name, None))
    if isinstance(item, property) and item in of_others:
        return True
    home = getattr(item, "__module__", ""), getattr(item, "__qualname__", "")
    if home == ("sklearn.pipeline", f"Pipeline.{name}"):
        return True
    of_tuples = name in ("count", "index") and item is getattr(tuple, name)
    return True if of_tuples or type(item).__name__ == "_tuplegetter" else None


def _shorten_defaults(app, what, name, item, options, signature, returns):
    """Leave out defaults that are arrays; those of NamedTuples cannot be read from the source."""
    if what == "class" and (signature or "").startswith("(*args"):  # of __new__, also torch's mock
        own = stringify_signature(inspect.signature(item), show_annotation=False)
        return "" if own.startswith("(*args") else own, returns  # nobody calls lite.Tagger
    if signature is None or "=(array(" not in signature:
        return None
    return re.sub(r"=\(array\(.*\)\)\)", "=...)", signature), returns


def _keep_exponents(app, doctree, docname):
    """No line ends within 1e-3."""
    for text in [t for entry in doctree.findall(nodes.entry) for t in entry.findall(nodes.Text)]:
        kept = re.sub(r"(?<=\de)-(?=\d)", "-\u2060", text)
        if kept != text:
            text.parent.replace(text, nodes.Text(kept))


def _align_numbers(app, doctree, docname):
    """Columns of numbers alone are set to the right."""
    for table in doctree.findall(nodes.tgroup):
        rows = [list(row.findall(nodes.entry)) for row in table.findall(nodes.row)]
        n_head = len(list(next(table.findall(nodes.thead), nodes.thead()).findall(nodes.row)))
        if len({*map(len, rows)}) > 1:  # merged cells
            continue
        for column in zip(*rows, strict=True):
            texts = [text for cell in column[n_head:] if (text := cell.astext().strip("-\u2013 "))]
            number = r"[^\w\s]?\.?\d(?!.*[A-Za-z]{3})"
            if texts and all(re.match(number, text, re.S) for text in texts):
                for cell in column:
                    cell["classes"].append("number")


def _resolve(app, env, node, contnode):
    """A page for what is named as in its own module; plain text for what exists but has no page."""
    if node.get("refdomain") != "py":
        return None
    domain, target = env.domains.python_domain, node["reftarget"].lstrip(".")
    last = target.rpartition(".")[2]
    found = {name for name in domain.objects if f".{name}".endswith(f".{target}")}
    module = node.get("py:module")
    item = pydoc.locate(target if "." in target else f"{module}.{target}")
    if item is not None:
        same = {name for name in domain.objects if name.endswith(f".{last}")}
        found |= {name for name in same if pydoc.locate(name) is item}
    if len({id(pydoc.locate(name)) for name in found}) == 1:  # one thing, maybe under two names
        name = min(found, key=len)
        return domain.resolve_xref(
            env, node["refdoc"], app.builder, node["reftype"], name, node, contnode
        )
    return None if item is None else contnode


def _describe(app, pagename, templatename, context, doctree):
    """Describe a page to search engines, and to chats that show a card for a link."""
    if doctree is None:
        return
    named = (meta for meta in doctree.findall(nodes.meta) if "description" in meta.get("name", ""))
    own = [meta["content"] for meta in named]
    texts = (" ".join(p.astext().split()) for p in doctree.findall(nodes.paragraph))
    text = next((t for t in [*own, *texts] if len(t) > 40 and not t.startswith("Bases:")), project)
    text = text if len(text) < 200 else text[:200].rpartition(" ")[0] + " …"
    title = unescape(re.sub(r"<[^>]+>", "", context["title"]))
    tags = {"og:title": title, "og:description": text, "og:type": "website"}
    if _SITE:
        tags |= {"og:url": context["pageurl"], "og:image": f"{_SITE}/_static/card.png"}
    shown = [f'<meta property="{name}" content="{escape(value)}">' for name, value in tags.items()]
    if not own:
        shown.append(f'<meta name="description" content="{escape(text)}">')
    shown.append('<meta name="twitter:card" content="summary_large_image">')
    context["metatags"] = "\n".join([context.get("metatags", ""), *shown])


def _write_versions(app, exception):
    """Write what the version switcher reads."""
    if _SITE and exception is None:
        entries = [
            {"version": version, "url": f"{_SITE}/{folder}".rstrip("/") + "/"}
            for version, folder in _VERSIONS.items()
        ]
        (Path(app.outdir) / "versions.json").write_text(json.dumps(entries), encoding="utf-8")


def setup(app):
    """Connect the hooks above."""
    app.connect("build-finished", _write_versions)
    app.connect("html-page-context", _describe)
    app.connect("autodoc-skip-member", _skip_inherited)
    app.connect("autodoc-process-signature", _shorten_defaults)
    app.connect("doctree-resolved", _keep_exponents)
    app.connect("doctree-resolved", _align_numbers)
    app.connect("missing-reference", _resolve)
