"""The owner's setting `prometheus`: where KEDA asks for the demand, and with which authentication."""

from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from inference_operator.api.validation import SpecModel


class AuthMode(StrEnum):
    """How KEDA authenticates at Prometheus (kedacore/keda v2.21.0, pkg/scalers/authentication)."""

    BASIC = "basic"
    BEARER = "bearer"
    CUSTOM = "custom"
    TLS = "tls"


class QueriedNamespace(StrEnum):
    """Which namespace a query names as its parameter, for servers that answer for one namespace at a time."""

    NONE = ""
    RESOURCE = "Resource"


class PrometheusSettings(SpecModel):
    """Where KEDA queries Prometheus, for `spec.autoscaling.backend: KEDA`.

    The admission policy of the operator's account has these values as text, so the patterns have no quotes.
    """

    url: str = Field("", pattern=r"^(https?://[A-Za-z0-9._:\[\]-]{1,253}(/[A-Za-z0-9._~%/-]{0,250})?)?$")
    """Address without user, password and query. Empty: there is no Prometheus for KEDA."""
    cluster_trigger_authentication: str = Field("", pattern=r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?)?$")
    """ClusterTriggerAuthentication of KEDA that has the credentials, the identity or the certificate."""
    auth_modes: tuple[AuthMode, ...] = ()
    """What of it is sent; empty for identities of a cloud."""
    namespace: QueriedNamespace = QueriedNamespace.NONE
    """Whether queries name the namespace of their InferenceDeployment."""

    @model_validator(mode="after")
    def _has_credentials(self) -> Self:
        if self.auth_modes and not self.cluster_trigger_authentication:
            raise ValueError("authModes needs clusterTriggerAuthentication, which has what KEDA sends")
        return self

    @property
    def sent_modes(self) -> str:
        """`authModes` as KEDA reads them."""
        return ",".join(self.auth_modes)
