"""An engine's access to its model: identity, variables and folders with which its process and the Jobs read it."""

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from inference_operator.api.container import EnvironmentVariable, SecretKeySelector
from inference_operator.api.model import HUB_TOKEN, ModelSpec, S3Addressing, S3Spec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal

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
    env: Sequence[EnvironmentVariable]
    writable: Sequence[str]
    revision: str | None
    """Branch, tag or commit of the hub repository; None is the default branch."""
    compiled: str = ""
    """Folder of all compiled kernels; empty if the engine keeps none."""
    keys: Sequence[SecretVariable] = ()
    """Keys of the model's store, which only the Jobs get."""
    user: int = USER
    group: int = GROUP


@dataclass(frozen=True, slots=True)
class Support:
    obstacle: str = ""
    """Why it does not, in a sentence; empty if it does."""
    implementation: str = ""
    lost: str = ""
    """What users lose beside an engine with an implementation of its own, in a sentence; empty: nothing."""


_HUB_VARIABLE = re.compile(
    r"HF_.+|HUGGING_?FACE_.+|TRANSFORMERS_OFFLINE|HOME|XDG_CACHE_HOME"
    r"|(?:HTTP|HTTPS|ALL|NO)_PROXY|SSL_CERT_(?:FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE",
    re.IGNORECASE,
)
"""Variables that huggingface_hub (2.4.0, `constants.py`) and its HTTP client read."""
_BUCKET_VARIABLE = re.compile(r"AWS_.+|HOME|(?:HTTP|HTTPS|ALL|NO)_PROXY|SSL_CERT_(?:FILE|DIR)", re.IGNORECASE)
"""Variables that obstore (0.12) and its HTTP client read. Of those of AWS's clients, it reads no profile, no
configuration file and no `AWS_CA_BUNDLE` (object_store 0.14, `aws/builder.rs`)."""
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_VIRTUAL_HOST = "AWS_VIRTUAL_HOSTED_STYLE_REQUEST"
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_TOKEN", "AWS_SKIP_SIGNATURE")
"""The same in other spellings, as the client reads them (object_store 0.14, `aws/builder.rs`)."""


def hub_variables(env: Sequence[EnvironmentVariable]) -> Sequence[EnvironmentVariable]:
    return [variable for variable in env if _HUB_VARIABLE.fullmatch(variable.name)]


def access_variables(env: Sequence[EnvironmentVariable], model: ModelSpec | None) -> tuple[EnvironmentVariable, ...]:
    if model is not None and model.source.startswith("s3://"):
        return bucket_variables(env, model.s3)
    return with_token(hub_variables(env), model.token_secret_ref if model else None)


def bucket_variables(env: Sequence[EnvironmentVariable], s3: S3Spec) -> tuple[EnvironmentVariable, ...]:
    """The variables with which a Job reaches a bucket: those of `model.s3`, and the engine's own beside them.

    An engine's key is left out where `model.s3` names a Secret: see `bucket_keys`.
    """
    replaced = {
        *(_ENDPOINTS if s3.endpoint else ()),
        *(_REGIONS if s3.region else ()),
        *((_VIRTUAL_HOST,) if s3.addressing is S3Addressing.VIRTUAL_HOST else ()),
        *(_KEYS if s3.credentials_secret_ref else ()),
    }
    virtual_host = "true" if s3.addressing is S3Addressing.VIRTUAL_HOST else None
    own = {"AWS_ENDPOINT_URL": s3.endpoint, "AWS_REGION": s3.region, _VIRTUAL_HOST: virtual_host}
    return (
        *(variable for variable in env if _BUCKET_VARIABLE.fullmatch(variable.name) and variable.name not in replaced),
        *(EnvironmentVariable(name=name, value=value) for name, value in own.items() if value),
    )


def bucket_keys(s3: S3Spec) -> tuple[SecretVariable, ...]:
    """The variables with the key of a bucket, of one Secret; none without it.

    No other key of the Secret becomes a variable. Where the Secret lacks one that is needed, the kubelet says which.
    """
    if s3.credentials_secret_ref is None:
        return ()
    secret = s3.credentials_secret_ref.name
    needed = (SecretVariable(name, secret) for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"))
    return (*needed, SecretVariable("AWS_SESSION_TOKEN", secret, optional=True))


def offline_variables(hub_cache: str) -> Mapping[str, str]:
    """Variables with which the engine finds its model in this folder and asks no hub; none without a folder."""
    return {"HF_HUB_CACHE": hub_cache, "HF_HUB_OFFLINE": "1"} if hub_cache else {}


_ELSEWHERE = frozenset({"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"})
"""Variables that decide where the hub's client looks for files and whether it asks a hub (huggingface_hub 2.4.0,
`constants.py`)."""
REMOVE = "Remove it, or remove `spec.cache`."


def refusal_of_moved_cache(env: Sequence[EnvironmentVariable], own: AbstractSet[str] = frozenset()) -> Refusal | None:
    """The refusal of the first variable that would make an engine look for its model elsewhere than on the claim."""
    for variable in env:
        if variable.name in _ELSEWHERE | own:
            problem = f"`{variable.name}` is managed by the operator with `spec.cache`."
            return Refusal(Reason.MANAGED_ARGUMENT, f"spec.engine.env[{variable.name}]", problem, REMOVE)
    return None


def with_token(env: Sequence[EnvironmentVariable], token: SecretKeySelector | None) -> tuple[EnvironmentVariable, ...]:
    """The variables with the token of a Secret, which replaces another token, such as the administrator's default.

    Examples:
        >>> token = SecretKeySelector(name="hub", key="token")
        >>> variables = with_token([EnvironmentVariable(name="HF_TOKEN", value="a")], token)
        >>> [(variable.name, variable.value, variable.value_from.secret_key_ref.name) for variable in variables]
        [('HF_TOKEN', None, 'hub')]
    """
    if token is None:
        return tuple(env)
    variable = EnvironmentVariable.model_validate({"name": HUB_TOKEN, "valueFrom": {"secretKeyRef": token}})
    return (*(other for other in env if other.name != HUB_TOKEN), variable)
