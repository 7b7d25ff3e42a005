"""Bodies that are longer than a usual buffer, as far as the router reads them: large buffers of HAProxy 3.4 and newer.

Where nothing reads them, they flow to their engine as they come.
"""

from collections.abc import Mapping

from inference_operator.api.router import RouterStrategy
from inference_operator.router.inputs import RouterInputs
from inference_operator.router.resources import HEADER_BYTES, buffer_bytes, memory, threads

LONGEST_BYTES = 10 * 2**20
"""Of a body whose model is looked for, which may stand at its end: what a few images take."""

SEARCHED_BYTES = 256 * 1024
"""Of a body, in which `PrefixAffinity` searches the texts that decide: 64,000 tokens of English."""

LONGEST_SECONDS = 300
"""How long it may take: 10 MiB at 280 kbit/s."""

WHOLE_PART, SEARCHED_PART = 4, 16
"""Of the memory, for bodies that are read whole, and for those whose start is searched: 1,024 requests are kept beside
these by default."""

OF_THREAD = 3
"""Large buffers that each thread has for itself (HAProxy 3.4, `tune.bufsize.large`)."""


def large_memory(inputs: RouterInputs) -> int:
    """Memory of the large buffers of each HAProxy process, in bytes. Kept requests have what is left."""
    if inputs.has_adapters:
        return memory(inputs.spec.resources) // WHOLE_PART
    return memory(inputs.spec.resources) // SEARCHED_PART if inputs.strategy is RouterStrategy.PREFIX_AFFINITY else 0


def values(inputs: RouterInputs) -> Mapping[str, object] | None:
    """None where no body is read, and where none of these buffers is larger than a usual one."""
    own, all_bytes = OF_THREAD * threads(inputs.spec.resources), large_memory(inputs)
    wanted = (LONGEST_BYTES if inputs.has_adapters else SEARCHED_BYTES) + HEADER_BYTES
    size = min(wanted, all_bytes // (own + 1) // HEADER_BYTES * HEADER_BYTES)
    if size <= buffer_bytes(inputs.spec):
        return None
    return {
        "buffer_bytes": size,
        "bodies": all_bytes // size - own,
        "seconds": LONGEST_SECONDS if inputs.has_adapters else 0,
        "searched_bytes": min(SEARCHED_BYTES, size - HEADER_BYTES),
    }
