"""Runs the end-to-end tests, in two pytest processes side by side.

    python -m e2e.runs.end_to_end [--record] [PYTEST ARGUMENTS]

The first one runs everything that needs the cluster with the stack of the project, the second one what has networks
and addresses of its own. The rest is run by the one that is free first. With `--record` they keep their durations as
`e2e-stack` and `e2e-router`.
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from e2e.runs import shared_modules, two_processes

WITHOUT_STACK = ("e2e/router", "e2e/localkube", "e2e/images")
SHARED = (
    ("e2e/test_adapter_memory.py",),
    ("e2e/test_push.py",),
    ("e2e/test_verify.py",),
    ("e2e/test_draw.py", "e2e/test_derived_sizes.py", "e2e/test_group_arguments.py"),
    ("e2e/test_bucket.py",),
    ("e2e/test_arguments.py", "e2e/test_sglang.py", "e2e/test_media_client.py"),
    ("e2e/test_bucket_faults.py",),
)
"""Modules by the process that runs them: the longest first. Those of one group share a name of their containers."""
RECORD, NAMES = "--record", ("e2e-stack", "e2e-router")


def main(arguments: Sequence[str]) -> int:
    """Run all of them; returns the exit status."""
    given = [argument for argument in arguments if argument != RECORD]
    stack, router = ([f"{RECORD}={NAMES[0]}"], [f"{RECORD}={NAMES[1]}"]) if RECORD in arguments else ([], [])
    with tempfile.TemporaryDirectory() as folder:
        options = [*given, *shared_modules.options(Path(folder), SHARED)]
        with_stack = [*options, *stack, *(f"--ignore={path}" for path in WITHOUT_STACK), "e2e"]
        without = [*options, *router, *WITHOUT_STACK, *(module for group in SHARED for module in group)]
        return two_processes.run(with_stack, without)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
