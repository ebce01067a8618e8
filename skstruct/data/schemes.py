"""Names of tagging schemes: any case, and the aliases under which other tools know them."""

from __future__ import annotations

_ALIASES = {"bio": "iob2", "bioes": "iobes", "biluo": "bilou", "bioul": "bilou"}
_SCHEMES = {"iob1", "iob2", "ioe1", "ioe2", "iobes", "bilou"}


def scheme_name(scheme, argument: str = "scheme") -> str:
    """The name that this package uses for a tagging scheme."""
    name = str(scheme).lower()
    name = _ALIASES.get(name, name)
    if name not in _SCHEMES:
        known = ", ".join(sorted(_SCHEMES | set(_ALIASES)))
        raise ValueError(f"{argument} must be a scheme ({known}), got {scheme!r}")
    return name
