"""Names of tagging schemes: any case, and the aliases under which other tools know them."""

from __future__ import annotations

_ALIASES = {"bio": "iob2", "bioes": "iobes", "biluo": "bilou", "bioul": "bilou"}
_SCHEMES = {"iob1", "iob2", "ioe1", "ioe2", "iobes", "bilou"}


def scheme_name(scheme, argument: str = "scheme") -> str:
    """The name that this package uses for a tagging scheme.

    Parameters
    ----------
    scheme : str
        One of "iob1", "iob2", "ioe1", "ioe2", "iobes", "bilou", or an alias ("bio", "bioes",
        "biluo", "bioul"), in any case.
    argument : str
        What the scheme was given for, for the message.

    Returns
    -------
    str
        The name.

    Raises
    ------
    ValueError
        If the scheme is unknown.

    Examples
    --------
    >>> from skstruct.data.schemes import scheme_name
    >>> scheme_name("BIO"), scheme_name("IOBES")
    ('iob2', 'iobes')
    """
    name = str(scheme).lower()
    name = _ALIASES.get(name, name)
    if name not in _SCHEMES:
        known = ", ".join(sorted(_SCHEMES | set(_ALIASES)))
        raise ValueError(f"{argument} must be a scheme ({known}), got {scheme!r}")
    return name
