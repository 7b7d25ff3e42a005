"""`spec.router.service`, `.ingress`, `.httpRoute`, `.tls` and `.cors`: how clients reach the routers."""

import re
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from inference_operator.api.container import SecretRef
from inference_operator.api.pod_template import MAX_ANNOTATION_LENGTH
from inference_operator.api.validation import (
    LABEL_KEYS,
    CelRules,
    LabelKey,
    Labels,
    ObjectName,
    Rule,
    SpecModel,
    matches,
)

MAX_PARENTS = 8
MAX_HOSTNAMES = 8
MAX_ORIGINS = 16
MAX_PATH = 253
MAX_PORT = 65_535
DEFAULT_PICKER_PORT = 9002
"""Port of the reference implementation (Gateway API Inference Extension 1.6, pkg/lwepp)."""

Annotations = Annotated[
    dict[str, Annotated[str, StringConstraints(max_length=MAX_ANNOTATION_LENGTH)]],
    Field(max_length=32),
    CelRules(LABEL_KEYS),
]

HOST_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
Hostname = Annotated[str, StringConstraints(max_length=253, pattern=rf"^(\*\.)?{HOST_LABEL}(\.{HOST_LABEL})*$")]
"""A DNS name in lower case; `*` may stand for its first label."""


class ServiceType(StrEnum):
    CLUSTER_IP = "ClusterIP"
    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"


_ORIGIN = matches(
    r"https?://([a-z0-9_]([-a-z0-9_.]*[a-z0-9_])?|\[[0-9a-f:.]+\])(:[1-9][0-9]{0,4})?",
    "must be an origin as browsers send it: scheme, host in lower case and port, without a path,"
    " for example `https://app.example.com`",
)


_NO_DEFAULT_PORT = Rule(
    "!self.matches('^(http://.*:80|https://.*:443)$')",
    lambda origin: not re.fullmatch("http://.*:80|https://.*:443", origin),
    "must not name the port that its scheme has by itself: browsers leave it out",
)


_Origin = Annotated[str, StringConstraints(max_length=253), CelRules(_ORIGIN, _NO_DEFAULT_PORT)]


class ServiceSpec(SpecModel):
    type: ServiceType = Field(
        ServiceType.CLUSTER_IP,
        description="`ClusterIP`, `NodePort` or `LoadBalancer`. Default: `ClusterIP`. Change: in place.",
    )
    annotations: Annotations = Field(
        {}, description="Annotations, for example those of a cloud's load balancer. Default: none. Change: in place."
    )
    labels: Labels = Field({}, description="Additional labels. Default: none. Change: in place.")
    load_balancer_class: LabelKey | None = Field(
        None,
        description="Class of the load balancer. Kubernetes accepts it only while `type` changes to `LoadBalancer`."
        " Default: the cluster's own load balancer. Change: immutable; set `type` to `ClusterIP` first.",
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.loadBalancerClass) || (has(self.type) && self.type == 'LoadBalancer')",
            lambda service: service.load_balancer_class is None or service.type is ServiceType.LOAD_BALANCER,
            "`loadBalancerClass` needs `type: LoadBalancer`",
        ),
    )


class IngressSpec(SpecModel):
    host: Hostname = Field(description="Host name that clients use. Required. Change: in place.")
    class_name: ObjectName | None = Field(
        None, description="Name of the IngressClass. Default: the cluster's default class. Change: in place."
    )
    annotations: Annotations = Field(
        {},
        description="Annotations. They replace the operator's own of the same key, which set ingress-nginx to streams"
        " of an hour. Default: none. Change: in place.",
    )
    tls_secret_ref: SecretRef | None = Field(
        None,
        description="Secret of type `kubernetes.io/tls` with which the Ingress controller serves HTTPS for `host`."
        " Default: none. Change: in place.",
    )


class ParentRef(SpecModel):
    name: ObjectName = Field(description="Name of the Gateway.")
    namespace: ObjectName | None = Field(None, description="Namespace of the Gateway. Default: this resource's own.")
    section_name: ObjectName | None = Field(
        None,
        description="Name of a listener. If it begins with `https`, so does the URL in status. Default: all listeners.",
    )


_SEGMENT = "[A-Za-z0-9_][-A-Za-z0-9._~]*"
_PATH = matches(
    f"(/{_SEGMENT})+",
    "must begin with `/`, not end with it, and consist of letters, digits and `-._~`, for example `/models/qwen`",
)
_NOT_THE_API = Rule(
    "!self.matches('^/v1(/|$)')",
    lambda path: not re.match("/v1(/|$)", path),
    "must not begin with `/v1`: the Gateway removes the path from requests, and the API's own paths begin so",
)
HEADER_NAME = matches("[A-Za-z][-A-Za-z0-9_]*", "must be the name of a header, for example `x-session-id`")
BASE_MODEL_HEADER = "X-Gateway-Base-Model-Name"
"""Header that carries the base model of the requested name alone (Gateway API Inference Extension 1.5,
pkg/bbr/plugins/basemodelextractor)."""


class HttpRouteSpec(SpecModel):
    parent_refs: tuple[ParentRef, ...] = Field(
        min_length=1,
        max_length=MAX_PARENTS,
        description="Gateways that the route attaches to. Required. Change: in place.",
    )
    hostnames: tuple[Hostname, ...] = Field(
        (),
        max_length=MAX_HOSTNAMES,
        description="Host names that clients use. Default: those of the Gateway's listeners. Change: in place.",
    )
    path: Annotated[str, StringConstraints(max_length=MAX_PATH), CelRules(_PATH, _NOT_THE_API)] | None = Field(
        None,
        description="Path before `/v1`, for example `/models/qwen`, so that several models share a host name. The"
        " Gateway removes it. Default: none, the route takes every path of its host names. Change: in place.",
    )
    model_header: Annotated[str, StringConstraints(max_length=63), CelRules(HEADER_NAME)] | None = Field(
        None,
        description="Header in which an extension of the Gateway repeats the `model` of a request, for example"
        f" `X-Gateway-Model-Name`: the route takes requests with a name of this model or of an adapter; of"
        f" `{BASE_MODEL_HEADER}`, its first name alone. Default: none. Change: in place.",
    )


class EndpointPickerRef(SpecModel):
    name: ObjectName = Field(description="Name of the Service, in the namespace of this resource.")
    port: int = Field(DEFAULT_PICKER_PORT, ge=1, le=MAX_PORT, description="Port of the Service. Default: 9002.")


class InferencePoolSpec(SpecModel):
    endpoint_picker_ref: EndpointPickerRef | None = Field(
        None,
        description="Service that chooses an engine for each request. Default: none, the Gateway chooses; before v1.6"
        " of the extension's CRD it is required. Change: in place.",
    )


class TlsSpec(SpecModel):
    secret_ref: SecretRef = Field(
        description="Secret of type `kubernetes.io/tls` in the same namespace. The routers take up a renewed"
        " certificate without a restart. Required. Change: rolling restart of the routers."
    )


class CorsSpec(SpecModel):
    allowed_origins: list[_Origin] = Field(
        min_length=1,
        max_length=MAX_ORIGINS,
        description="Origins of these pages, for example `https://app.example.com`. Scripts of others read no answer."
        " Change: rolling restart of the routers.",
    )
