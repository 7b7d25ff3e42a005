"""Which proxy leads to a URL: cases of Go's rule, judged by golang.org/x/net v0.61.0."""

import json
from pathlib import Path

import pytest
from kubernetes.aio.client.configuration import Configuration

from inference_operator.controller.cluster import ClusterError
from inference_operator.kube import client, proxy
from inference_operator.kube.client import Api, connect
from inference_operator.kube.proxy import environment_proxy
from inference_operator.manifest import CONFIG_MAP

PROXY = "http://proxy:3128"


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "ALL_PROXY", "REQUEST_METHOD"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("HTTPS_PROXY", PROXY)


@pytest.mark.parametrize(
    ("no_proxy", "url", "is_used"),
    [
        ("", "https://10.0.0.1:6443", True),
        ("", "http://10.0.0.1:6443", False),  # there is no HTTP_PROXY
        ("", "https://127.0.0.1:6443", False),
        ("", "https://[::1]:6443", False),
        ("", "https://localhost:6443", False),
        ("*", "https://10.0.0.1", False),
        ("10.0.0.1,.svc", "https://10.0.0.1:6443", False),
        ("10.0.0.1:6443", "https://10.0.0.1:6443", False),
        ("10.0.0.1:443", "https://10.0.0.1:6443", True),
        ("10.0.0.1:443", "https://10.0.0.1", False),
        ("127.0.0.0/8, 10.96.0.0/12 ,.svc", "https://10.96.0.1:443", False),
        ("10.96.0.0/12", "https://10.112.0.1:443", True),
        ("10.96.0.1/12", "https://10.97.0.1:443", False),
        ("10.96.0.0/99", "https://10.96.0.1:443", True),
        ("10.*", "https://10.96.0.1:443", True),
        ("fd00:10:96::/112", "https://[fd00:10:96::1]:443", False),
        ("fd00:10:96::1", "https://[fd00:10:96::1]:443", False),
        ("[fd00:10:96::1]:443", "https://[fd00:10:96::1]:443", False),
        ("[fd00:10:96::1]:443", "https://[fd00:10:96::1]:6443", True),
        (".svc", "https://kubernetes.default.svc", False),
        ("default.svc", "https://kubernetes.default.svc", False),
        ("efault.svc", "https://kubernetes.default.svc", True),
        ("default.svc", "https://default.svc", False),
        (".default.svc", "https://default.svc", True),
        ("*.default.svc", "https://default.svc", True),
        ("Default.SVC", "https://KUBERNETES.default.svc", False),
        ("default.svc:443", "https://kubernetes.default.svc:6443", True),
        ("example.com:", "https://example.com:6443", False),
        ("*example.com", "https://api.example.com", True),
        ("10.0.0.0/8", "https://[::ffff:10.0.0.1]", False),
        (" , ,,", "https://10.0.0.1", True),
    ],
)
def test_exceptions_are_those_of_go(no_proxy: str, url: str, *, is_used: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", no_proxy)
    assert environment_proxy(url) == (PROXY if is_used else None)


def test_a_proxy_without_a_scheme_is_one_of_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "proxy:3128")
    assert environment_proxy("https://10.0.0.1") == PROXY


def _kubeconfig(folder: Path, **cluster: str) -> Path:
    written = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "a", "cluster": {"server": "https://203.0.113.1:6443", **cluster}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "users": [{"name": "a", "user": {"token": "a"}}],
        "current-context": "a",
    }
    (folder / "kubeconfig").write_text(json.dumps(written))
    return folder / "kubeconfig"


async def test_the_proxy_of_a_kubeconfig_counts_before_the_variables(tmp_path: Path) -> None:
    async with await connect(_kubeconfig(tmp_path, **{"proxy-url": "http://own:3128"})) as opened:
        assert opened.configuration.proxy == "http://own:3128"
    async with await connect(_kubeconfig(tmp_path)) as opened:
        assert opened.configuration.proxy == PROXY


async def test_a_proxy_that_does_not_answer_is_named_without_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:secret@127.0.0.1:9")
    async with await connect(_kubeconfig(tmp_path)) as opened:
        with pytest.raises(ClusterError, match=r"the proxy 127\.0\.0\.1:9.*NO_PROXY") as raised:
            await Api(opened).request("GET", "/version", CONFIG_MAP)
    assert "secret" not in str(raised.value)


async def test_a_pod_asks_its_own_api_server_without_a_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("a")
    monkeypatch.setattr(proxy, "SERVICE_ACCOUNT_TOKEN", tmp_path / "token")

    def in_pod(*, client_configuration: Configuration) -> None:
        client_configuration.host = "https://10.96.0.1:443"

    monkeypatch.setattr(client, "load_incluster_config", in_pod)
    async with await connect() as opened:
        assert opened.configuration.proxy is None
