"""The setting `policy`: what the owner of a cluster allows InferenceDeployments to name.

Each rule is a section with an optional sentence of the owner, which a refusal repeats. A rule that is left out allows
everything, except `s3Endpoints`: without it, addresses inside the cluster are refused.
"""

from typing import Annotated, TypeVar

from pydantic import Field, StringConstraints

from inference_operator.api.autoscaling import AutoscalingBackend
from inference_operator.api.validation import SpecModel, unique

MOST_ENTRIES = 32
"""Entries of a list. With 64 adapters and 64 characters in an entry, a policy of the API server stays within its
budget; a test measures the largest resource."""
PUBLIC = "Public"
"""The entry for all endpoints whose name is not one of the inside."""

_HOST = "[a-z0-9]([-a-z0-9.]*[a-z0-9])?(:[0-9]{1,5})?"
_PATH = "[A-Za-z0-9][-A-Za-z0-9._/@:+]*"
IMAGE_ENTRY = rf"{_HOST}/({_PATH})?"
"""The beginning of a reference: a registry with `/`, and perhaps a path."""
SOURCE_ENTRY = rf"(hf|s3|pvc)://({_PATH})?|oci://({IMAGE_ENTRY})?"
URL_ENTRY = r"https?://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?"
VERSION_ENTRY = "[0-9]{1,4}[.][0-9]{1,4}[.][0-9]{1,4}"
WAIT_ENTRY = "[0-9]{1,5}[hms]"
PUBLIC_KEY = "-----BEGIN PUBLIC KEY-----\\n[A-Za-z0-9+/=\\n]+-----END PUBLIC KEY-----\\n*"

Sentence = Annotated[str, StringConstraints(max_length=300, pattern=r"^[^\x00-\x1f\x7f]*$")]
Version = Annotated[str, StringConstraints(pattern=rf"^({VERSION_ENTRY})?$")]
Wait = Annotated[str, StringConstraints(pattern=rf"^({WAIT_ENTRY})?$")]
PublicKeyText = Annotated[str, StringConstraints(max_length=4096, pattern=f"^({PUBLIC_KEY})?$")]
T = TypeVar("T")


def _entry(pattern: str) -> StringConstraints:
    return StringConstraints(min_length=1, max_length=200, pattern=f"^({pattern})$")


_Entries = Annotated[tuple[T, ...], Field(max_length=MOST_ENTRIES), unique("must not contain an entry twice")]
Source = Annotated[str, _entry(SOURCE_ENTRY)]
ImageBeginning = Annotated[str, _entry(IMAGE_ENTRY)]
Url = Annotated[str, _entry(URL_ENTRY)]
Endpoint = Annotated[str, _entry(f"{PUBLIC}|{URL_ENTRY}")]


class OwnerRule(SpecModel):
    message: Sentence = ""
    """Sentence of the administrator beside the refusal: why, and whom to ask."""


class AllowedSources(OwnerRule):
    allowed: _Entries[Source] = ()
    """Beginnings. One that ends in `/` allows all below it; another one also what follows it after `/`, `:` or `@`."""


class AllowedImages(OwnerRule):
    """Images that a resource names: of the engine, of sidecars, of volumes, and models and adapters with `oci://`."""

    allowed: _Entries[ImageBeginning] = ()
    """Beginnings, as those of sources. A name without a registry counts as one of docker.io."""
    digests: bool = False
    """Whether each image must have a digest."""


class AllowedHubs(OwnerRule):
    """Hubs that a resource names in `HF_ENDPOINT`."""

    allowed: _Entries[Url] = ()


class AllowedEndpoints(OwnerRule):
    """Stores of S3 that a resource names."""

    allowed: Annotated[_Entries[Endpoint], Field(min_length=1)] = (PUBLIC,)


class RequiredSignature(OwnerRule):
    key: PublicKeyText = ""
    """Public key of cosign in PEM that must have signed each of them; empty for no requirement. Models and adapters
    have to be images then."""


class MostGpus(OwnerRule):
    most: int | None = Field(None, ge=0, le=1_000_000)
    """Largest sum over all engines that the resource can have; None for no limit."""


class LeastVersion(OwnerRule):
    """Version of vLLM in images that a resource names."""

    least: Version = ""
    """The earliest version that the tag of an image may have; empty for any. An image whose tag is no version is
    refused too."""


class LongestWait(OwnerRule):
    """How long an engine may hold the drain of its node."""

    most: Wait = ""
    """Largest `scheduling.evictionWait`; empty for no limit."""


class AllowedBackends(OwnerRule):
    """What may decide the number of engines."""

    allowed: _Entries[AutoscalingBackend] = ()


class AdministratorPolicy(SpecModel):
    model_sources: AllowedSources = AllowedSources()
    images: AllowedImages = AllowedImages()
    hubs: AllowedHubs = AllowedHubs()
    s3_endpoints: AllowedEndpoints = AllowedEndpoints()
    signatures: RequiredSignature = RequiredSignature()
    gpus: MostGpus = MostGpus()
    vllm_version: LeastVersion = LeastVersion()
    eviction_wait: LongestWait = LongestWait()
    autoscaling_backends: AllowedBackends = AllowedBackends()
