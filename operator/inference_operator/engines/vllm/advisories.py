"""Security advisories of vLLM, and those that an image's version has.

1. A version is that of the image's tag. An image that shows none has no notice.
2. An advisory counts if it can concern a server of this operator, whose routers and NetworkPolicies stand before it.
3. The table ends at the version that mends the last one. Later versions have none that was known on its date.
"""

from collections.abc import Mapping

from inference_operator.engines.vllm_image import version_of_image
from inference_operator.sentences import first_of
from inference_operator.text_tables import rows

ADVISORIES_OF = "2026-11-27"
"""The day on which the table was compared with its sources."""
MENDED: Mapping[tuple[int, ...], list[str]] = {
    tuple(map(int, version.split("."))): names for version, *names in rows(__package__, "advisories.txt")
}
"""Advisories by the first version without them (github.com/vllm-project/vllm/security/advisories, and
github.com/pypa/advisory-database, vulns/vllm)."""
_SHOWN = 3
"""Names in a notice, the latest first."""


def advisories_of(image: str) -> tuple[str, ...]:
    """The known advisories of the version in an image's tag, the latest first.

    Examples:
        >>> advisories_of("vllm/vllm-openai:v0.30.0"), advisories_of("vllm/vllm-openai:v0.32.0")
        (('CVE-2026-115911', 'CVE-2026-114053'), ())
        >>> advisories_of("registry.example/own:latest")
        ()
    """
    text = version_of_image(image)
    if not text:
        return ()
    version = tuple(map(int, text.split(".")))
    return tuple(name for mended in sorted(MENDED, reverse=True) if version < mended for name in MENDED[mended])


def notice_of_advisories(image: str) -> str:
    advisories = advisories_of(image)
    if not advisories:
        return ""
    number = "a known vulnerability" if len(advisories) == 1 else f"{len(advisories)} known vulnerabilities"
    names = first_of(advisories, _SHOWN)
    least = ".".join(map(str, max(MENDED)))
    return f"vLLM {version_of_image(image)} has {number}: {names}. Use an image of vLLM {least} or later."
