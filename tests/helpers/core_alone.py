"""Code for the start of a new process that needs kernels, but no estimators: most of an import."""

from pathlib import Path

import skstruct

CORE_ALONE = f"""
import sys, types
package = types.ModuleType("skstruct")
package.__path__ = [{str(Path(skstruct.__file__).parent)!r}]
sys.modules["skstruct"] = package
"""
