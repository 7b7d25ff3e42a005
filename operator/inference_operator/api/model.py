"""`spec.model` of an InferenceDeployment: where its files come from, how to sign in there, and who may change them."""

import re
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from inference_operator.api.adapters import (
    CLAIM_SCHEME,
    REVISION,
    SERVED_NAME,
    SOURCE,
    TOKEN_OF_HUB,
    Adapters,
    TokenSecretRef,
)
from inference_operator.api.container import BY_NAME, ConfigMapKeySelector, DataKey, SecretRef
from inference_operator.api.validation import CelRules, NameOf, Rule, SpecModel, cel, matches
from inference_operator.manifest import CLAIM

_ENDPOINT = matches(
    r"https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?",
    "must be a URL such as `https://s3.example.com:9000`, without a path",
)
_REGION = matches("[a-z0-9-]+", "must be the name of a region, for example `eu-central-1`")


class S3Addressing(StrEnum):
    PATH = "Path"
    VIRTUAL_HOST = "VirtualHost"


class S3Spec(SpecModel):
    endpoint: Annotated[str, StringConstraints(max_length=253), CelRules(_ENDPOINT)] | None = Field(
        None, description="URL of a compatible store. Default: Amazon S3. Change: in place; the next download uses it."
    )
    region: Annotated[str, StringConstraints(max_length=63), CelRules(_REGION)] | None = Field(
        None, description="Region of the bucket. Default: `us-east-1`. Change: in place; the next download uses it."
    )
    addressing: S3Addressing = Field(
        S3Addressing.PATH,
        description="`Path`: requests name the bucket in their path. `VirtualHost`: in the name of the host, before"
        " that of `endpoint`; some stores accept only that. Default: `Path`. Change: in place; the next download uses"
        " it.",
    )
    credentials_secret_ref: SecretRef | None = Field(
        None,
        description="Secret with `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, and perhaps `AWS_SESSION_TOKEN`."
        " Default: the identity of the pod. Change: in place; the next download uses it.",
    )


HUB_TOKEN = "HF_TOKEN"  # noqa: S105 - a name
"""Variable from which the hub's client takes its token (huggingface_hub 2.4.0, `constants.py`)."""

LISTING_DIGEST = re.compile("[0-9a-f]{40}")
"""The revision of a model in a bucket."""

PINNED_IMAGE = re.compile("oci://.*@sha256:[0-9a-f]+")
"""A source whose files cannot change: an image by its digest."""


class PublicKeyRef(ConfigMapKeySelector):
    key: DataKey = Field("cosign.pub", description="Key in its `data`. Default: `cosign.pub`.")


class VerifySpec(SpecModel):
    config_map_ref: PublicKeyRef = Field(
        description="ConfigMap in the same namespace that has the public key. Required."
    )


class ModelSpec(SpecModel):
    source: Annotated[str, NameOf(CLAIM, scheme=CLAIM_SCHEME)] = Field(
        min_length=1,
        max_length=1024,
        json_schema_extra=cel(SOURCE),  # for resources that come from a file, `models` checks this and more
        description="Model to serve: `hf://org/name` (Hugging Face Hub), `s3://bucket/path` (needs `cache`),"
        " `pvc://claim/path` (directory in a PersistentVolumeClaim in the same namespace) or `oci://image-reference`"
        " (OCI image mounted as a volume, with the model files at its root). A path that ends in `.gguf` names one of"
        " several models in GGUF: `hf://org/name/FILE.gguf`, `pvc://claim/path/FILE.gguf`. Required. Change: rolling"
        " restart.",
    )
    served_name: Annotated[str, StringConstraints(min_length=1, max_length=253), CelRules(SERVED_NAME)] | None = Field(
        None,
        description="Name of the model in the OpenAI API. Default: the name of this resource. Change: rolling restart.",
    )
    revision: Annotated[str, StringConstraints(min_length=1, max_length=253), CelRules(REVISION)] | None = Field(
        None,
        description="Branch, tag or commit on the hub. Of an `s3://` model, the digest of the list of its files that"
        " `infd inspect` prints: other files are then refused. Default: `main`; of `s3://` the files that are there"
        " at the first inspection. Change: rolling restart.",
    )
    token_secret_ref: TokenSecretRef | None = Field(
        None,
        description="Secret with a token of the Hugging Face Hub, for gated and private models. Default: none."
        " Change: rolling restart.",
    )
    s3: S3Spec = Field(default_factory=S3Spec, description="Store of an `s3://` model.")
    allow_pickle: bool = Field(
        False,  # noqa: FBT003 - a field's default
        description="Whether weights may be pickle files, which can run code. Default: false."
        " Change: rolling restart with new sizing.",
    )
    adapters: Adapters = Field(
        (),
        description="LoRA adapters that engines serve under names of their own beside the model. They need `cache`."
        " Default: none. Change: in place, within `engine.adapterSlots` and `engine.maxAdapterRank`; the first one"
        " restarts the engines.",
        json_schema_extra=BY_NAME,
    )
    verify: VerifySpec | None = Field(
        None, description="Key of cosign that must have signed an `oci://` model. Change: in place, verified anew."
    )
    rules: ClassVar[tuple[Rule, ...]] = (
        TOKEN_OF_HUB,
        Rule(
            "!has(self.revision) || self.source.startsWith('hf://')"
            " || self.source.startsWith('s3://') && self.revision.matches('^[0-9a-f]{40}$')",
            lambda self: (
                not self.revision
                or self.source.startswith("hf://")
                or (self.source.startswith("s3://") and LISTING_DIGEST.fullmatch(self.revision) is not None)
            ),
            "`revision` needs a source `hf://org/name`, or `s3://` and the 40 digits that `infd inspect` prints",
        ),
        Rule(
            "!has(self.s3) || self.source.startsWith('s3://')"
            " || has(self.adapters) && self.adapters.exists(one, one.source.startsWith('s3://'))",
            lambda self: (
                "s3" not in self.model_fields_set
                or any(part.source.startswith("s3://") for part in (self, *self.adapters))
            ),
            "`s3` needs a source `s3://bucket/path`",
        ),
        Rule(
            "!has(self.adapters) || !has(self.servedName) || self.adapters.all(one, one.name != self.servedName)",
            lambda self: all(adapter.name != self.served_name for adapter in self.adapters),
            "an adapter needs another name than `servedName`, which is the model's",
        ),
        Rule(
            "!has(self.allowPickle) || !self.allowPickle || self.source.startsWith('pvc://') || self.source.matches('^oci://.*@sha256:[0-9a-f]+$')"
            " || has(self.revision) && self.revision.matches('^[0-9a-f]{40}$')",
            lambda self: (
                not self.allow_pickle
                or self.source.startswith("pvc://")
                or bool(PINNED_IMAGE.fullmatch(self.source) or LISTING_DIGEST.fullmatch(self.revision or ""))
            ),
            "`allowPickle` needs weights that cannot change: `revision` with 40 hexadecimal digits, or `oci://` with"
            " `@sha256:`",
        ),
        Rule(
            "!has(self.verify) || self.source.matches('^oci://.*@sha256:[0-9a-f]+$')",
            lambda self: not self.verify or PINNED_IMAGE.fullmatch(self.source) is not None,
            "`verify` needs an image by its digest: `oci://registry/name@sha256:...`",
        ),
    )
