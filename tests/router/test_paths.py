"""Errors of routers: their form, and what is said of paths. e2e/router/test_paths.py asks a real HAProxy."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from inference_operator.api.router import RouterSpec
from inference_operator.engines.llama_cpp.llama_cpp import API_PATHS as LLAMA_PATHS
from inference_operator.engines.vllm.vllm import API_PATHS
from inference_operator.router.error_response import INVALID, ErrorResponse
from inference_operator.router.haproxy import config_files, haproxy_cfg
from inference_operator.router.inputs import RouterInputs
from inference_operator.router.paths import ABILITIES
from tests.router.test_haproxy import ENGINES, REQUEST, WITH_ADAPTERS

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "clients.md").read_text()
NEUTRAL = {"/v1/models", "/tokenize", "/detokenize"}
"""Paths that every model has."""
OF_SOME_ENGINES = {"/v1/responses", "/v1/messages", "/cohere/v2/chat", "/v1/realtime"}
"""Paths whose absence says nothing of the model: older engines lack them, and one is of a WebSocket."""
ALL_PARTS = RouterSpec.model_validate(
    {"keys": {"secretRef": {"name": "keys"}, "requestsPerMinute": 60, "maxConcurrent": 4}, "maxBodySize": "1Mi"}
)
_ERROR = re.compile(r"'(\{\"error\": .*?\}\})'")
_SAMPLE = re.compile(r"%\[[^]]+\]")


def serving(paths: tuple[str, ...], name: str = "chat") -> RouterInputs:
    return replace(REQUEST, upstreams=(replace(ENGINES, api_paths=paths, model_names=(name,)),))


def errors(inputs: RouterInputs) -> list[dict[str, object]]:
    """The errors of a configuration, with `?` for what HAProxy puts in."""
    found = _ERROR.findall(haproxy_cfg(inputs))
    return [json.loads(_SAMPLE.sub("?", text).replace("%%", "%"))["error"] for text in found]


def test_each_error_has_message_type_param_and_a_word_as_code() -> None:
    found = errors(replace(serving(API_PATHS), spec=ALL_PARTS))
    assert len(found) > 20
    for error in found:
        assert list(error) == ["message", "type", "param", "code"]
        assert re.fullmatch("[a-z0-9_]+", str(error["code"]))


def test_the_page_for_clients_explains_each_code() -> None:
    made = {str(one["code"]) for one in errors(replace(serving(API_PATHS), spec=ALL_PARTS))}
    made |= set(re.findall(r'"code": "(\w+)"', config_files(WITH_ADAPTERS)["adapters.lua"]))
    rows = PAGE.partition("## Errors")[2]
    assert {code for code in re.findall(r"`([a-z_0-9]+)`", rows) if "_" in code} >= made


def test_each_path_of_vllm_needs_an_ability_or_is_for_all_models() -> None:
    named = [path for ability in ABILITIES for path in ability.paths]
    assert len(named) == len(set(named))
    assert {*named, *NEUTRAL, *OF_SOME_ENGINES} == set(API_PATHS)


def test_what_is_said_of_a_path_names_only_paths_that_are_served() -> None:
    for paths in (API_PATHS, LLAMA_PATHS, ("/v1/embeddings", "/v1/models"), ("/echo",), ()):
        for error in errors(serving(paths)):
            named = re.findall(r"`(/[\w/]+)`", str(error["message"]))
            assert {path for path in named if path != "/v1"} <= set(paths)


def test_paths_without_v1_that_an_engine_serves_itself_are_no_mistake() -> None:
    (line,) = [line for line in haproxy_cfg(serving(API_PATHS)).splitlines() if " acl without_base path /" in line]
    assert {"/chat/completions", "/completions", "/models", "/embeddings"} <= set(line.split())
    assert not {"/rerank", "/score"} & set(line.split())


@pytest.mark.parametrize("name", ["it's", '"a" %[env(PATH)] 100%', "org/Model", "é"])
def test_no_name_of_a_model_ends_a_string_or_is_run(name: str) -> None:
    said = ErrorResponse(404, INVALID, "x", f"the model `{name}` and `<path>`").log_format(path="var(txn.path)")
    assert "'" not in said
    assert _SAMPLE.findall(said.replace("%%", "")) == ["%[var(txn.path)]"]
    plain = _SAMPLE.sub("/a", said.replace("%%", "\0")).replace("\0", "%")
    assert json.loads(plain)["error"]["message"] == f"the model `{name}` and `/a`"
