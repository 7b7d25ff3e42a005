# ruff: noqa: INP001  # a script of the image, not a module of a package
"""Let PyPI's torch load where no CUDA libraries are: put an empty stand-in where the loader looks.

PyPI has no CPU build of torch for Linux on x86_64. The one it has must find 3.4 GiB of NVIDIA libraries to be
loaded at all, though nothing in them runs on a CPU. This writes one small library under the names of all of
them, which defines exactly the functions that torch asks for. Each answers 100, `cudaErrorNoDevice`: so torch
says what is true on such a machine, that CUDA is not available.

Needs binutils (`as`, `ld`, `nm`, `readelf`).
"""

import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

FUNCTION = ".globl {name}\n.type {name},@function\n{name}: mov $100, %eax\nret\n"
NO_EXECUTABLE_STACK = '.section .note.GNU-stack,"",@progbits\n'
STAND_IN = "libno_cuda.so"


def output(*command: str | Path) -> str:
    """Standard output of a command that must succeed."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603  # fixed commands


def symbols(library: Path, kind: str) -> set[str]:
    """Dynamic symbols of a library, `name` or `name@version`; weak undefined ones need no definition."""
    rows = (line.split() for line in output("nm", "-D", kind, library).splitlines())
    return {row[-1].replace("@@", "@") for row in rows if row and row[-2] not in {"w", "v"}}


def needed(library: Path) -> set[str]:
    """Sonames that a library asks the loader for."""
    return set(re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "-d", library)))


def system_libraries() -> dict[str, Path]:
    """Path of each library that the loader knows, by soname."""
    rows = re.findall(r"^\t(\S+) .* => (\S+)$", output("/sbin/ldconfig", "-p"), re.MULTILINE)
    return {soname: Path(path) for soname, path in rows}


def write_library(path: Path, functions: dict[str, set[str]]) -> None:
    """Assemble and link one shared library of these functions, given by their version tag."""
    names = sorted(set().union(*functions.values()))
    tags = (f"{tag} {{ {'; '.join(sorted(tagged))}; }};\n" for tag, tagged in functions.items() if tag)
    with tempfile.TemporaryDirectory() as folder:
        source, code, script = (Path(folder) / name for name in ("a.s", "a.o", "a.map"))
        source.write_text("".join(FUNCTION.format(name=name) for name in names) + NO_EXECUTABLE_STACK)
        script.write_text("".join(tags))
        output("as", "-o", code, source)
        output("ld", "-shared", "-soname", path.name, f"--version-script={script}", "-o", path, code)


def main(torch_lib: Path) -> None:
    """Write the stand-in and its names into the `lib` folder of an installed torch."""
    own = [path for path in torch_lib.iterdir() if ".so" in path.name and path.is_file()]
    system = system_libraries()
    asked = set().union(*map(needed, own))
    present = [*own, *(system[soname] for soname in asked & set(system))]
    defined = {name.partition("@")[0] for path in present for name in symbols(path, "--defined-only")}
    functions: defaultdict[str, set[str]] = defaultdict(set)
    for symbol in set().union(*(symbols(path, "--undefined-only") for path in own)):
        name, _, tag = symbol.partition("@")
        if name not in defined and not name.startswith(("Py", "_Py")):  # the interpreter defines these
            functions[tag].add(name)
    write_library(torch_lib / STAND_IN, functions)
    missing = sorted(asked - {path.name for path in own} - set(system))
    for soname in missing:
        (torch_lib / soname).symlink_to(STAND_IN)
    sys.stdout.write(f"{STAND_IN}: {sum(map(len, functions.values()))} functions, for {' '.join(missing)}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
