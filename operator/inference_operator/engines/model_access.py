"""An engine's access to its model: identity, variables and folders with which its process and the Jobs read it."""

from collections.abc import Sequence
from dataclasses import dataclass

from inference_operator.api.container import EnvironmentVariable

USER, GROUP = 2000, 0
"""The user that vLLM's images prepare since 0.22 (vllm-project/vllm v0.32.0, docker/Dockerfile). Other engines need no
particular one, and share claims with it."""
TEMPORARY = "/tmp"  # noqa: S108 - an emptyDir of the pod's own


@dataclass(frozen=True, slots=True)
class SecretVariable:
    name: str
    secret: str
    optional: bool = False
    """Whether the container starts without it if the Secret has no such key."""


@dataclass(frozen=True, slots=True)
class HubAccess:
    user: int
    group: int
    env: Sequence[EnvironmentVariable]
    writable: Sequence[str]
    revision: str | None
    """Branch, tag or commit of the hub repository; None is the default branch."""
    compiled: str = ""
    """Folder of all compiled kernels; empty if the engine keeps none."""
    keys: Sequence[SecretVariable] = ()
    """Keys of the model's store, which only the Jobs get."""


@dataclass(frozen=True, slots=True)
class Support:
    obstacle: str = ""
    """Why it does not, in a sentence; empty if it does."""
    implementation: str = ""
    lost: str = ""
    """What users lose beside an engine with an implementation of its own, in a sentence; empty: nothing."""
