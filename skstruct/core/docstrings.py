"""Docstrings of methods that override others: their own first line, the sections of the base."""

from __future__ import annotations

import inspect
import re
from itertools import pairwise

_SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
# Not Notes and Examples: they may not hold for the override.
_INHERITED = "Parameters", "Returns", "Yields", "Raises", "See Also"


def _sections(text):
    """Title and text of each section, heading included."""
    heads = list(_SECTION.finditer(text))
    starts = [head.start() for head in heads] + [len(text)]
    return {
        head[1]: text[i:j].strip() for head, (i, j) in zip(heads, pairwise(starts), strict=True)
    }


def _of_function(parameters, function):
    """Return the section restricted to the parameters of a function."""
    known, entries = inspect.signature(function).parameters, re.split(r"\n(?=\S)", parameters)
    names = [re.findall(r"\w+", entry.partition(" :")[0]) for entry in entries[2:]]
    kept = [entry for entry, own in zip(entries[2:], names, strict=True) if {*own} & {*known}]
    return "\n".join([*entries[:2], *kept])


def inherit_sections(cls: type, base: type) -> None:
    """Add the sections of the overridden methods to docstrings."""
    for name, member in vars(cls).items():
        function = inspect.unwrap(getattr(member, "__func__", member))
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        above = next((vars(b)[name] for b in cls.__mro__[1:] if name in vars(b)), None)
        own = inspect.cleandoc(function.__doc__ or "")
        found = _sections(inspect.getdoc(above) or "")
        if not found or _sections(own):
            continue
        entry = f"{base.__name__}.{name} : The method that it overrides."
        others = found.get("See Also", "See Also\n--------").split("\n")
        if hasattr(base, name) and entry not in others:
            others.insert(2, entry)
        found["See Also"] = "\n".join(others)
        if "Parameters" in found:
            found["Parameters"] = _of_function(found["Parameters"], function)
        function.__doc__ = "\n\n".join([own, *(found[s] for s in _INHERITED if s in found)])
