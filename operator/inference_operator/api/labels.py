"""Kubernetes' forms of labels and names (apimachinery 0.36, pkg/util/validation)."""

from typing import Annotated

from pydantic import Field, StringConstraints

from inference_operator.api.part import Must, keys_form

_WORD = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_SUBDOMAIN = "[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
LABEL_KEY = f"({_SUBDOMAIN}/)?{_WORD}"
MAX_LABEL_KEY_LENGTH = 253 + 1 + 63
"""An optional DNS subdomain, `/`, and a name."""

LabelKey = Annotated[str, StringConstraints(min_length=1, max_length=MAX_LABEL_KEY_LENGTH, pattern=f"^{LABEL_KEY}$")]
LabelValue = Annotated[str, StringConstraints(max_length=63, pattern=f"^({_WORD})?$")]
ObjectName = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=f"^{_SUBDOMAIN}$")]
KEYS = keys_form(LABEL_KEY, "must have label keys, for example `nvidia.com/gpu.product`", longest=MAX_LABEL_KEY_LENGTH)
Labels = Annotated[dict[str, LabelValue], Field(max_length=32), Must(KEYS)]
