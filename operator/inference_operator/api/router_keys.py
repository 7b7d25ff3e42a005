"""`spec.router.keys`: API keys of users, checked by the routers."""

from pydantic import Field

from inference_operator.api.container import DataKey, SecretKeySelector
from inference_operator.api.validation import SpecModel

KEYS_FILE = "keys"
"""Name of the keys file, and the usual key of its Secret."""


class KeysSecretRef(SecretKeySelector):
    """The Secret with the keys file."""

    key: DataKey = Field(KEYS_FILE, description=f"Key in its `data`. Default: `{KEYS_FILE}`.")


class RouterKeysSpec(SpecModel):
    """API keys that the routers require."""

    secret_ref: KeysSecretRef = Field(
        description="Secret that holds a line `USER: SHA256` for each API key, as `infd key create`"
        " prints it. Changes of its content take effect within two minutes. Change: rolling restart of the routers."
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
