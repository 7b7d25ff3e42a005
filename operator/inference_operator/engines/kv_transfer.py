"""How an engine that computes prompts and one that answers work together: what their processes and pods agree on."""

from dataclasses import dataclass
from enum import Enum

from inference_operator.manifest import Manifest
from inference_operator.views.raw import mapping, objects

SIDE_CHANNEL_PORT = 5600
"""Of handshakes; each data parallel rank has the next one (vLLM 0.32.0, envs.py, `VLLM_NIXL_SIDE_CHANNEL_PORT`)."""
TRANSFER_PORTS = (20000, 20063)
"""First and last port of the connections that carry blocks: all processes of a pod together take from them."""
TOKENS = "tokens"
"""Argument of an engine's command: prompts of fewer tokens are computed where they are decoded."""
POD_IP = "POD_IP"
"""Variable with the address of the pod, from its status. Pods of both roles need it."""


class TransferRole(Enum):
    PREFILL = "kv_producer"
    DECODE = "kv_consumer"


@dataclass(frozen=True, slots=True)
class KVTransfer:
    role: TransferRole
    revision: str
    """Of what both sides must have equal: image, model revision, and the arguments of tokens and of the KV cache."""
    prefill_url: str = ""
    """`http://HOST:PORT` of the routers' frontend for engines; only decode engines have it."""
    min_prompt_tokens: int = 0
    """Shorter prompts are computed where they are decoded; only decode engines have it. 0: as the plan says."""
    objective: float = 2.0
    """Seconds: the objective of the time to first token, which bounds every wait."""


def sent_from(template: Manifest) -> int | None:
    """From how many tokens on engines of a pod template send prompts; None if they send none.

    Examples:
        >>> container = {"command": ["sh", "role=decode", "tokens=862"], "args": ["--port=8000"]}
        >>> sent_from({"spec": {"containers": [container]}}), sent_from({})
        (862, None)
    """
    for container in objects(mapping(template, "spec"), "containers"):
        for argument in (*container.get("command", ()), *container.get("args", ())):
            name, _, value = str(argument).partition("=")
            if name == TOKENS and value.isdecimal():
                return int(value) or None
    return None
