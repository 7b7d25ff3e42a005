import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.api.router import RouterSpec, RouterStrategy
from inference_operator.quantity import value
from inference_operator.router.clients import client_connections, unfinished_bodies
from inference_operator.router.haproxy import haproxy_cfg
from inference_operator.router.resources import BUFFERS_OF_WAITING, buffer_bytes, process_resources
from tests.router.test_haproxy import CONFIGS, REQUEST

ROUTED = (RouterStrategy.LEAST_OUTSTANDING, RouterStrategy.PREFIX_AFFINITY)


@pytest.mark.parametrize("config", CONFIGS)
def test_the_connections_of_a_process_are_the_sum_of_those_of_its_frontends(config: str) -> None:
    _, process, *sections = re.split(r"^(?=\w)", config, flags=re.MULTILINE)
    (whole,) = re.findall(r"^    maxconn (\d+)$", process, re.MULTILINE)
    frontends = [section for section in sections if section.startswith(("frontend ", "listen "))]
    parts = [re.findall(r"^    maxconn (\d+)$", section, re.MULTILINE) for section in frontends]
    assert int(whole) == sum(int(one) for (one,) in parts)
    assert len(parts) == 6


@pytest.mark.parametrize("strategy", ROUTED)
@given(mebibytes=st.integers(1, 65536))
def test_unfinished_headers_and_bodies_fit_any_memory(strategy: RouterStrategy, mebibytes: int) -> None:
    resources = {"limits": {"memory": f"{mebibytes}Mi"}}
    spec = RouterSpec.model_validate({"strategy": strategy, "resources": resources})
    memory = int(value(process_resources(spec.resources)["limits"]["memory"]))
    assert 1 <= client_connections(spec) <= max(1, memory // buffer_bytes(spec))
    assert 1 <= unfinished_bodies(spec) <= max(1, memory // 2 // (BUFFERS_OF_WAITING * buffer_bytes(spec)))


@pytest.mark.parametrize("strategy", ROUTED)
def test_every_strategy_waits_once_for_the_body(strategy: RouterStrategy) -> None:
    config = haproxy_cfg(replace(REQUEST, spec=RouterSpec(strategy=strategy)))
    assert config.count("http-request wait-for-body time 30s unless { var(txn.is_large) -m bool }\n") == 1
    of_large = strategy is RouterStrategy.PREFIX_AFFINITY
    assert config.count("http-request wait-for-body ") == 1 + of_large
    assert config.index("http-request wait-for-body ") < config.index("\nbackend engines\n")


@pytest.mark.parametrize("strategy", ROUTED)
def test_no_header_changes_before_the_body_is_here(strategy: RouterStrategy) -> None:
    secret = {"secretRef": {"name": "secret"}}
    spec = RouterSpec.model_validate({"strategy": strategy, "keys": secret, "tls": secret})
    config = haproxy_cfg(replace(REQUEST, spec=spec, engine_key="key"))
    of_clients = config[config.index("\nfrontend api\n") : config.index("\nbackend stopping\n")]
    before, behind = of_clients.rsplit("http-request wait-for-body ", 1)
    changes = re.compile(r"http-request (?:set|add|del|replace)-header")
    assert not changes.findall(before)
    assert len(changes.findall(behind)) >= len(("X-Request-Id", "Authorization", "x-api-key", "X-Forwarded-Proto"))
