"""Random requests for the objects of a router: all fields at once, valid; equal for equal seeds."""

import copy
import random
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from inference_operator.api.model import ModelSpec
from inference_operator.api.router import ProxySpec, RouterSpec
from inference_operator.engines.vllm.vllm import API_PATHS
from inference_operator.fleet.rollout_slots import TurnInputs
from inference_operator.manifest import Key, Manifest, Owner
from inference_operator.models.source import HubModel, model_source
from inference_operator.objects.gateway_key import GATEWAY_KEY_SECRET
from inference_operator.objects.names import ENGINE, GATEWAY
from inference_operator.router.inputs import RouterInputs, Upstream
from inference_operator.router.process import HEALTH_PATH
from inference_operator.settings import Settings
from tests.testing.builders import NOW
from tests.testing.random_specs import Specs, places

SLOTS = (32, 64, 128, 512)
PIECES = (
    *("\n", "\r", "\t", " ", "'", '"', "\\", "#", "%[env(PATH)]", "%{+json}o", "%%", "${PATH}", '"${PATH}"', "$(id)"),
    *(
        "\n    stats enable\n",
        "' unless TRUE\n",
        "} or TRUE",
        "{{ 7 * 7 }}",
        "{% raw %}",
        ",x",
        ";",
        "\0",
        "\u2028",
        "é",
    ),
)
"""Texts that would mean something to HAProxy, to Lua or to Jinja2, if they reached the configuration as they are."""
CPUS = ("100m", "1", "1500m", 2)
"""HAProxy warns of more threads than its machine has cores."""
_FIRST = "ABCxyz019"
_LETTERS = _FIRST + "-._/:"


class Routers:
    """A source of requests."""

    def __init__(self, seed: int) -> None:
        self._specs = Specs(seed)
        self._random = random.Random(seed)  # noqa: S311 - the same ones each time

    def request(self) -> RouterInputs:
        """One with a random section `router`, random names and numbers; `External` has no configuration."""
        section = self._specs.valid_router()
        if section.pop("inferencePool", None) or section.get("strategy") == "External":
            section["strategy"] = "PrefixAffinity"
        for amounts in section.get("resources", {}).values():
            amounts.update({"cpu": self._random.choice(CPUS)} if "cpu" in amounts else {})
        return built(section, self._names(), self._random)

    def gateway(self) -> RouterInputs:
        """The same of a gateway, with a key of the second hop or without."""
        key = self._random.choice(("", GATEWAY_KEY_SECRET))
        models = Upstream(GATEWAY, "", 0, HEALTH_PATH, 1, (), API_PATHS, has_adapters=True)
        made = self.request()
        own = made.spec.model_dump(by_alias=True, exclude_unset=True, include=set(ProxySpec.model_fields))
        spec = RouterSpec.model_validate(own)
        return replace(made, component=GATEWAY, upstreams=(models,), engine_key=key, spec=spec, stated=spec)

    def injected(self) -> tuple[RouterInputs, RouterInputs | None, str]:
        """A request; the same with something dangerous in one text, None if that is refused; the text."""
        section, names = self._specs.valid_router(), self._names()
        section.pop("inferencePool", None)
        section.update({"strategy": "PrefixAffinity", "sessionHeader": section.get("sessionHeader", "x-user")})
        first = self._random.getrandbits(32)
        plain = built(section, names, random.Random(first))  # noqa: S311 - as above
        model = {"source": f"hf://{names[1]}", "servedName": names[0]}
        whole: Manifest = {"router": section, "model": model}
        *way, last = self._random.choice(list(_texts(whole)))
        changed = copy.deepcopy(whole)
        target: Any = changed
        for step in way:
            target = target[step]
        at = self._random.randint(0, len(target[last]))
        target[last] = target[last][:at] + self._random.choice(PIECES) + target[last][at:]
        return plain, _if_valid(changed, first), str(target[last])

    def _names(self) -> Sequence[str]:
        """A served name, and a repository of the hub."""
        return self._name(_LETTERS), f"{self._name(_FIRST)}/{self._name(_FIRST)}"

    def _name(self, letters: str) -> str:
        rest = self._random.choices(letters, k=self._random.randint(0, 20))
        return "".join((self._random.choice(_FIRST), *rest))


def built(section: Manifest, names: Sequence[str], chance: random.Random) -> RouterInputs:
    """The request of a section `router`; raises pydantic's ValidationError if that is invalid."""
    spec = RouterSpec.model_validate(section)
    return RouterInputs(
        upstreams=(
            Upstream(
                name=ENGINE,
                host=f"{chance.choice(('a', 'qwen-3', 'x' * 40))}-engines.default.svc.cluster.local",
                port=8000,
                health_path="/health",
                max_concurrency=chance.choice((1, 4, 256, 1024)),
                model_names=tuple(names),
                api_paths=API_PATHS,
                has_adapters=chance.random() < 1 / 2,
            ),
        ),
        slots=chance.choice(SLOTS),
        spec=spec,
        stated=spec,
        turn=TurnInputs(NOW),
        drain_seconds=chance.choice((1, 300, 3600)),
        progress_deadline_seconds=600,
        owner=Owner(Key("default", "qwen"), "uid"),
        settings=Settings(),
    )


def _texts(whole: Manifest) -> Iterator[tuple[Any, ...]]:
    """The places of all texts."""
    for way in places(whole):
        found: Any = whole
        for step in way:
            found = found[step]
        if isinstance(found, str):
            yield way


def _if_valid(whole: Manifest, seed: int) -> RouterInputs | None:
    """The request of a changed resource; None if the operator refuses it."""
    try:
        model = ModelSpec.model_validate(whole["model"])
        request = built(whole["router"], (), random.Random(seed))  # noqa: S311 - as above
    except ValidationError:
        return None
    source = model_source(model.source)
    if not isinstance(source, HubModel):
        return None
    names = (model.served_name or "", source.repository)
    return replace(request, upstreams=tuple(replace(one, model_names=names) for one in request.upstreams))


def words(config: str) -> list[tuple[str, ...]]:
    """The words of each line, as HAProxy divides it: quotes, escapes and comments (3.0, src/tools.c, parse_line)."""
    return [_words(line) for line in config.split("\n")]


@lru_cache(maxsize=100_000)
def _words(line: str) -> tuple[str, ...]:
    return tuple(shlex.split(line, comments=True))
