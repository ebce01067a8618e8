"""Make the wheel skstruct-kernels: compiled kernels, which skstruct finds where it is installed.

    python .ci/kernels_wheel.py FOLDER [options of `python -m skstruct compile`]

The wheel is for this Python and this platform, and needs the versions that it was made with.
Without options it holds the kernels of chains and tables.
"""

import base64
import hashlib
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from importlib.metadata import version
from pathlib import Path

import skstruct

USUAL = "--graph chain multiclass --features csr dense --jobs 2 --estimator SAGCRF".split()
USUAL += ["SAGCRF(solver='oeg')", "BCFWSSVM"]
PINNED = "numba", "llvmlite"


def main(folder, *options):
    """Compile, and write a wheel as PEP 427 has it."""
    with tempfile.TemporaryDirectory() as place:
        bundle = Path(place, "kernels.zip")
        command = [sys.executable, "-m", "skstruct", "compile", "--bundle", str(bundle)]
        subprocess.run([*command, *(options or USUAL)], check=True)
        kernels = bundle.read_bytes()
    own = skstruct.__version__
    name = f"skstruct_kernels-{own}"
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}-none-{platform}"
    metadata = ["Metadata-Version: 2.1", "Name: skstruct-kernels"]
    metadata += [f"Version: {own}", "Summary: Compiled kernels of skstruct"]
    metadata += [f"Requires-Dist: skstruct=={own}"]
    metadata += [f"Requires-Dist: {package}=={version(package)}" for package in PINNED]
    wheel = ["Wheel-Version: 1.0", "Generator: skstruct", "Root-Is-Purelib: false", f"Tag: {tag}"]
    files = {
        "skstruct_kernels/__init__.py": b"",
        "skstruct_kernels/kernels.zip": kernels,
        f"{name}.dist-info/METADATA": "\n".join([*metadata, ""]).encode(),
        f"{name}.dist-info/WHEEL": "\n".join([*wheel, ""]).encode(),
    }
    record = [f"{name}.dist-info/RECORD,,", ""]
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        record.insert(0, f"{path},sha256={digest},{len(content)}")
    files[f"{name}.dist-info/RECORD"] = "\n".join(record).encode()
    path = Path(folder, f"{name}-{tag}.whl")
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in files.items():
            archive.writestr(member, content)
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(*sys.argv[1:])
