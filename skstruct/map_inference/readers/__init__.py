"""Files of factor graphs: the formats of UAI, weighted constraints, toulbar2 and libDAI."""

from .cfn import read_cfn
from .libdai import read_libdai
from .uai import read_uai
from .wcsp import read_wcsp
from .write import write_uai

__all__ = ["read_cfn", "read_libdai", "read_uai", "read_wcsp", "write_uai"]
