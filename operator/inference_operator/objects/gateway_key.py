"""The key of the second hop: what ModelGateways of a namespace and the routers of its models agree on.

The operator only creates the Secret, with a random key that it does not keep. Gateways send the key with what they know
of a request. Routers mount the Secret where it exists.
"""

from inference_operator.manifest import GROUP

GATEWAY_KEY_SECRET = "model-gateway-key"  # noqa: S105 - a name
"""The one Secret of a namespace. The name is fixed, so that the pods of routers do not change when a gateway comes."""
GATEWAY_KEY_TYPE = f"{GROUP}/gateway-key"
"""The type of the Secret. The operator's account may create no Secret of another type than this and that of engines."""
GATEWAY_KEY_ENTRY = "key"
"""The entry of the Secret, and the name of its file."""

GATEWAY_KEY_HEADER = "x-inference-gateway-key"
"""The key. Routers remove it; without the right one they remove the other three too."""
GATEWAY_USER_HEADER = "x-inference-user"
"""The user whose API key the gateway has found."""
GATEWAY_PRIORITY_HEADER = "x-inference-priority"
"""The priority of the request: an integer, the lower the sooner."""
GATEWAY_ATTEMPTS_HEADER = "x-inference-attempts"
"""How many engines the request may have reached before: an integer."""
GATEWAY_HEADERS = (GATEWAY_KEY_HEADER, GATEWAY_USER_HEADER, GATEWAY_PRIORITY_HEADER, GATEWAY_ATTEMPTS_HEADER)
