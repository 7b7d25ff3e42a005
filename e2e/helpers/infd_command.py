"""`infd` as a user runs it."""

import os
import subprocess
import sys
from pathlib import Path

from e2e.localkube.handle import LocalCluster


def infd(cluster: LocalCluster, *arguments: str, seconds: int = 120) -> tuple[int, str, str]:
    """Its exit status, output and complaints, with the kubeconfig of a cluster."""
    command = (str(Path(sys.executable).with_name("infd")), *arguments)
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds, check=False)
    if "Traceback" in ended.stderr:
        raise AssertionError(ended.stderr)
    return ended.returncode, ended.stdout, ended.stderr
