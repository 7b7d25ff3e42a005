"""`spec.router.keys`: API keys of users, checked by the routers."""

from enum import StrEnum

from pydantic import Field

from inference_operator.api.container import DataKey, SecretKeySelector
from inference_operator.api.validation import SpecModel

KEYS_FILE = "keys"
"""Name of the keys file, and the usual key of its Secret."""


class KeysSecretRef(SecretKeySelector):
    key: DataKey = Field(KEYS_FILE, description=f"Key in its `data`. Default: `{KEYS_FILE}`.")


class KeysOfGateways(StrEnum):
    REFUSE = "Refuse"
    TRUST = "Trust"


class KeysSpec(SpecModel):
    secret_ref: KeysSecretRef = Field(
        description="Secret that holds a line `USER: SHA256` for each API key, as `infd key create` prints it. A"
        " line may end with `priority=High` or `priority=Low`: requests of this user leave the queue before, or after,"
        " those of others. Changes of its content take effect within two minutes. Change: rolling restart of routers."
    )
    requests_per_minute: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="Requests per minute of each user. A user may send those of five seconds at once, and at least one;"
        " further ones get 429 with `Retry-After`. Default: none. Change: rolling restart of routers.",
    )
    max_concurrent: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="Requests in flight of each user; further ones get 429 with `Retry-After`."
        " Default: none. Change: rolling restart of routers.",
    )


class RouterKeysSpec(KeysSpec):
    gateways: KeysOfGateways = Field(
        KeysOfGateways.REFUSE,
        description="Requests of the namespace's ModelGateways without an API key of this model. `Refuse` answers 401."
        " `Trust` takes whom the gateway lets in, everybody where it asks for no key; limits are then of the users that"
        " it names. Default: `Refuse`. Change: rolling restart of the routers.",
    )
