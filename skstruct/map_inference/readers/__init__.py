"""Files of factor graphs: the formats of UAI, weighted constraints, toulbar2 and libDAI."""

from .cfn import read_cfn
from .libdai import read_libdai
from .uai import read_uai, write_uai
from .wcsp import read_wcsp

__all__ = ["read_cfn", "read_libdai", "read_uai", "read_wcsp", "write_uai"]
