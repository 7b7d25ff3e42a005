"""`spec.router.keys`: API keys of users, checked by the routers."""

from pydantic import Field

from inference_operator.api.validation import SecretName, SpecModel

KEYS_FILE = "keys"
"""Key of the Secret that holds the keys file."""


class RouterKeysSpec(SpecModel):
    """API keys that the routers require."""

    secret_name: SecretName = Field(
        description=f"Secret whose key `{KEYS_FILE}` holds a line `USER: SHA256` for each API key, as `infd key create`"
        " prints it. Changes of its content take effect within two minutes. Change: rolling restart of the routers."
    )
    requests_per_minute: int | None = Field(
        None, ge=1, le=1_000_000, description="Limit of each user. Default: none. Change: rolling restart of routers."
    )
    max_concurrent: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="Requests in flight of each user. Default: none. Change: rolling restart of routers.",
    )
