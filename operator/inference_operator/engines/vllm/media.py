"""Hosts from which vLLM fetches the images, audio and video that a request names by URL."""

from collections.abc import Sequence

from inference_operator.engines.vllm.memory import version_of

ALLOWED_DOMAINS = "--allowed-media-domains"
"""Names with which the host of a URL is compared, before DNS and without its port. A `data:` URL is not compared
(vLLM 0.32.0, multimodal/media/connector.py)."""
ALLOWED_DOMAINS_SINCE = (0, 11)
"""The first version that has the option (0.11.0, vllm/engine/arg_utils.py; 0.10.2 has none). An earlier one would not
start with it."""

NO_HOST = "No-Host-Is-Allowed.invalid."
"""The only allowed name while the spec allows none: vLLM takes an empty list for all hosts. It equals no host of a URL,
which vLLM writes in lower case. It also has no address: `invalid` is reserved (RFC 2606), and with the dot at its end
no search domain of the cluster is added."""

REDIRECTS = "VLLM_MEDIA_URL_ALLOW_REDIRECTS"
"""Whether vLLM follows redirects. It compares only the first host (0.32.0, vllm/envs.py)."""
ENVIRONMENT = {REDIRECTS: "0"}


def media_arguments(domains: Sequence[str], version: str) -> Sequence[str]:
    """The arguments that allow these hosts only; none for a version that is known to have no such option.

    Another option must follow, because the list of names ends there.

    Args:
        domains: `spec.engine.multimodal.allowedDomains`.
        version: version of vLLM in the image's tag; empty if there is none.

    Examples:
        >>> media_arguments(["images.example.com", "b.example.com"], "0.32.0")
        ['--allowed-media-domains', 'images.example.com', 'b.example.com']
        >>> media_arguments([], ""), media_arguments([], "0.10.2")
        (['--allowed-media-domains', 'No-Host-Is-Allowed.invalid.'], [])
    """
    known = version_of(version)
    if known is not None and known < ALLOWED_DOMAINS_SINCE:
        return []
    return [ALLOWED_DOMAINS, *(domains or [NO_HOST])]
