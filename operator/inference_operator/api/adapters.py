"""`spec.model.adapters`: LoRA adapters that engines serve beside the model."""

from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, StringConstraints

from inference_operator.api.container import DataKey, SecretKeySelector
from inference_operator.api.validation import CelRules, NameOf, Rule, SpecModel, matches
from inference_operator.manifest import CLAIM

MAX_ADAPTERS = 64
MAX_NAME = 128
"""Characters of an adapter's name: an error of a router repeats it."""
CLAIM_SCHEME = "pvc://"
HUB_TOKEN_KEY = "token"  # noqa: S105 - a name

SOURCE = matches(
    r"(hf|s3|pvc|oci)://\S+",
    "must start with `hf://`, `s3://`, `pvc://` or `oci://` and contain no spaces, for example `hf://Qwen/Qwen3-8B`",
)
REVISION = matches(
    "[A-Za-z0-9][-A-Za-z0-9._/]*", "must be a branch, tag or commit of the hub, for example `main` or `v1.0`"
)
SERVED_NAME = matches(
    "[A-Za-z0-9][-A-Za-z0-9._/:]*",
    "must start with a letter or digit and contain only letters, digits and `-._/:`, for example `qwen3-8b`",
)


class TokenSecretRef(SecretKeySelector):
    key: DataKey = Field(HUB_TOKEN_KEY, description="Key in its `data`. Default: `token`.")


TOKEN_OF_HUB = Rule(
    "!has(self.tokenSecretRef) || self.source.startsWith('hf://')",
    lambda self: not self.token_secret_ref or self.source.startswith("hf://"),
    "`tokenSecretRef` needs a source `hf://org/name`",
)


class AdapterSpec(SpecModel):
    name: Annotated[str, StringConstraints(min_length=1, max_length=MAX_NAME), CelRules(SERVED_NAME)] = Field(
        description="Name of the adapter in the OpenAI API: the `model` of a request. Required. Change: in place."
    )
    source: Annotated[str, NameOf(CLAIM, scheme=CLAIM_SCHEME), CelRules(SOURCE)] = Field(
        min_length=1,
        max_length=1024,
        description="Folder with `adapter_config.json` and `adapter_model.safetensors`, as in `model.source`. It is"
        " copied to `cache`. Required. Change: in place.",
    )
    revision: Annotated[str, StringConstraints(min_length=1, max_length=253), CelRules(REVISION)] | None = Field(
        None,
        description="Branch, tag or commit on the hub. Default: `main`. Change: in place; a branch is resolved once.",
    )
    token_secret_ref: TokenSecretRef | None = Field(
        None, description="Secret with a token of the Hugging Face Hub. Default: that of the model. Change: in place."
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        TOKEN_OF_HUB,
        Rule(
            "!has(self.revision) || self.source.startsWith('hf://')",
            lambda self: not self.revision or self.source.startswith("hf://"),
            "`revision` needs a source `hf://org/name`",
        ),
    )


def _unique(adapters: tuple[AdapterSpec, ...]) -> tuple[AdapterSpec, ...]:
    names = [adapter.name for adapter in adapters]
    if doubled := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"the name `{doubled}` is used twice")
    return adapters


Adapters = Annotated[tuple[AdapterSpec, ...], Field(max_length=MAX_ADAPTERS), AfterValidator(_unique)]
