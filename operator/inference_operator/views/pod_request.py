"""A request that the operator should send to a pod, for example to load a LoRA adapter into a running vLLM."""

from dataclasses import dataclass

from inference_operator.manifest import Manifest, Ref

REQUEST_SECONDS = 30.0
"""How long a pod may take to respond, if the request does not say otherwise."""


@dataclass(frozen=True, slots=True)
class PodRequestSpec:
    """A POST with a JSON body to a port and path of one pod.

    It must be safe to repeat: after a failure it is unknown whether it took effect.

    Examples:
        >>> from inference_operator.manifest import POD
        >>> pod = Ref(POD, "default", "qwen-0")
        >>> PodRequestSpec(pod, "u", "fd00::1", 8000, "/v1/load_lora_adapter", {}, "adapter `a` is absent").url
        'http://[fd00::1]:8000/v1/load_lora_adapter'
    """

    ref: Ref
    """The pod."""
    uid: str
    """The uid of the pod for which the request was decided."""
    address: str
    """IP address of the pod."""
    port: int
    path: str
    body: Manifest
    why: str
    """Why the request is needed, in a phrase for logs."""
    timeout_seconds: float = REQUEST_SECONDS

    @property
    def url(self) -> str:
        """The URL of the request; an IPv6 address is in brackets (RFC 3986, 3.2.2)."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{self.port}{self.path}"
