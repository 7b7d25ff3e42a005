"""`spec.model.s3`: the store of an `s3://` model, and how to sign in to it."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from inference_operator.api.container import SecretRef
from inference_operator.api.validation import CelRules, SpecModel, matches

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
