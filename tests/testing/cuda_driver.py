"""A shared library with the functions of the CUDA driver API that the GPU check calls."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

GIB = 2**30
DRIVER = """
typedef unsigned long size_t;
static const char *names[] = {%(names)s};
static const size_t bytes[] = {%(bytes)s};
static const int major[] = {%(major)s}, minor[] = {%(minor)s};
int cuInit(unsigned flags) { return %(error)s; }
int cuDeviceGetCount(int *count) { *count = %(count)s; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal + 100; return 0; }
int cuDeviceGetName(char *name, int length, int device) {
    const char *from = names[device - 100];
    for (int i = 0; i < length && (name[i] = from[i]); i++);
    return 0;
}
int cuDeviceTotalMem_v2(size_t *size, int device) { *size = bytes[device - 100]; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == 75 ? major[device - 100] : attribute == 76 ? minor[device - 100] : -1;
    return 0;
}
"""
"""The functions of the driver API that the check calls, with the signatures of `cuda.h` (CUDA 13)."""

Gpu = tuple[str, float, tuple[int, int]]
"""Name, GiB and compute capability."""
H100: Gpu = ("NVIDIA H100 80GB HBM3", 79.18, (9, 0))
L4: Gpu = ("NVIDIA L4", 22.05, (8, 9))


def compile_driver(library: Path, gpus: Sequence[Gpu], *, error: int = 0) -> None:
    """Compile the driver of a machine with these GPUs; `error` is what its initialisation returns."""
    listed = gpus or [L4]
    source = DRIVER % {
        "names": ", ".join(f'"{name}"' for name, _, _ in listed),
        "bytes": ", ".join(str(int(gib * GIB)) for _, gib, _ in listed),
        "major": ", ".join(str(capability[0]) for _, _, capability in listed),
        "minor": ", ".join(str(capability[1]) for _, _, capability in listed),
        "count": len(gpus),
        "error": error,
    }
    code = library.with_suffix(".c")
    code.write_text(source)
    compiler = shutil.which("cc")
    assert compiler, "a C compiler is needed"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, code], check=True, capture_output=True)
