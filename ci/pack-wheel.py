"""Packs the wheel of a package that has been built: `pack-wheel.py PACKAGE LIBRARY FOLDER`. Prints the path of the wheel.

It has the files that maturin puts into it by the package's pyproject.toml, without those of a release: no notes on licences, and a
library that is not stripped.
"""

import pathlib
import shutil
import sys
import tomllib

from wheel.wheelfile import WheelFile

package, library, folder = (pathlib.Path(argument) for argument in sys.argv[1:])
settings = tomllib.loads((package / "pyproject.toml").read_text())
project, maturin = settings["project"], settings["tool"]["maturin"]
version = tomllib.loads((package / "../../Cargo.toml").read_text())["workspace"]["package"]["version"]
name = f"{project['name'].replace('-', '_')}-{version}"
tag = f"cp{project['requires-python'].removeprefix('>=').replace('.', '')}-abi3-linux_x86_64"

tree = folder / "tree"
for module in maturin["python-packages"]:
    shutil.copytree(package / maturin["python-source"] / module, tree / module, ignore=shutil.ignore_patterns("__pycache__"))
parent, _, native = maturin["module-name"].rpartition(".")
shutil.copy(library, tree / parent / f"{native}.abi3.so")
notes = tree / f"{name}.dist-info"
notes.mkdir()
(notes / "METADATA").write_text(
    f"Metadata-Version: 2.4\nName: {project['name']}\nVersion: {version}\nSummary: {project['description']}\n"
    f"Requires-Python: {project['requires-python']}\nDescription-Content-Type: text/markdown\n\n"
    + (package / project["readme"]).read_text()
)
(notes / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: pack-wheel\nRoot-Is-Purelib: false\nTag: {tag}\n")
path = folder / f"{name}-{tag}.whl"
with WheelFile(path, "w") as wheel:
    wheel.write_files(tree)
print(path)
