"""`infd support-bundle`: no secret that is planted anywhere is in the archive."""

import errno
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.cli.parser import UsageError
from inference_operator.cli.support_bundle.command import BundleFile, _is_about, packed, write
from inference_operator.cli.support_bundle.hiding import shown_object
from inference_operator.views.redact import redacted

ANY = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FFF, exclude_categories=["Cs", "Cc"]), min_size=8)
"""A value of any form, where the place alone says that it is a secret."""
LETTERS = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", min_size=24, max_size=40)
FORMS = st.sampled_from(["hf_{}", "sk-{}", "ghp_{}", "github_pat_{}", "xoxb-{}", "eyJ{0}.{0}.{0}"])
OPTIONS = st.sampled_from(
    ["--api-key", "--hf-token", "--ssl-keyfile-password", "-token", "--client-secret", "--encryption-key"]
)
SECRET_FIELDS = st.sampled_from(
    [
        *("password", "token", "apiKey", "clientSecret", "authorization", "sessionCookie"),
        *("accountKey", "azurestorageaccountkey", "pwd", "signature", "sig", "tls.key"),
    ]
)
VARIABLE = st.sampled_from(["A", "HF_TOKEN", "INFERENCE_OPERATOR_PROMETHEUS", "INFERENCE_OPERATOR_ENGINE_DEFAULTS"])


def archive_of(manifest: dict[str, Any], log: str) -> str:
    """Everything that an archive with an object and a log says."""
    members = [BundleFile("a.yaml", yaml.safe_dump(shown_object(manifest))), BundleFile("a.log", redacted(log))]
    with tarfile.open(fileobj=io.BytesIO(packed(members, "bundle"))) as archive:
        return "\n".join(
            part.read().decode() for one in archive.getmembers() if (part := archive.extractfile(one)) is not None
        )


@given(ANY, VARIABLE)
def test_values_of_variables_are_hidden_wherever_they_stand(value: str, name: str) -> None:
    secret = f"<<{value}>>"
    env = [{"name": name, "value": secret}]
    probe = {"httpGet": {"httpHeaders": env}}
    container = {"name": "a", "env": env, "deep": [{"env": env}], "livenessProbe": probe}
    volume = {"csi": {"driver": "a", "volumeAttributes": {name: secret}}}
    annotation = {"inference-operator.dev/template": json.dumps({"spec": {"containers": [container]}})}
    pod = {
        "metadata": {"annotations": annotation},
        "spec": {"containers": [container], "env": {name: secret}, "volumes": [volume]},
    }
    found = archive_of(pod, "")
    assert secret not in found
    assert secret not in yaml.safe_load(found).values()
    assert json.dumps(secret)[1:-1] not in found


@given(ANY, st.sampled_from(["example.com/a", "kubectl.kubernetes.io/last-applied-configuration", "a"]))
def test_annotations_of_others_are_hidden(value: str, key: str) -> None:
    secret = f"<<{value}>>"
    found = shown_object({"metadata": {"annotations": {key: secret}}})
    assert found == {"metadata": {"annotations": {key: "[hidden]"}}}


@given(ANY, OPTIONS, SECRET_FIELDS, st.sampled_from("x-"))
def test_values_after_secret_options_and_of_secret_fields_are_hidden(
    value: str, option: str, field: str, first: str
) -> None:
    secret = f"{first}x{value}"
    found = shown_object({"args": [option, secret, f"{option}={secret}"], "deep": [{field: secret}, {field: [secret]}]})
    hidden = [{field: "[hidden]"}, {field: ["[hidden]"]}]
    assert found == {"args": [option, "[hidden]", f"{option}=[hidden]"], "deep": hidden}


@given(LETTERS, FORMS, ANY)
def test_what_has_the_form_of_a_secret_is_hidden_in_every_text(letters: str, form: str, before: str) -> None:
    secret = form.format(letters)
    manifest = {
        "metadata": {"name": "a", "labels": {"a": secret}, "annotations": {"inference-operator.dev/a": f"x {secret}"}},
        "data": {"haproxy.cfg": f"line\n  header {secret}\n"},
        "status": {"message": f"401 with {secret}", "list": [[secret], {"a": f"{secret} "}]},
        secret: 1,
    }
    assert letters not in archive_of(manifest, f"{before[:0]} INFO {secret} \n{secret}")


@given(LETTERS)
def test_urls_headers_and_keys_lose_their_secrets(letters: str) -> None:
    pem = f"-----BEGIN PRIVATE KEY-----\n{letters}\n-----END PRIVATE KEY-----"
    texts = [f"https://me:{letters}@hub.example/x", f"Authorization: Bearer {letters}", f"token={letters}", pem]
    assert letters not in archive_of({"data": dict(zip("abcd", texts, strict=True))}, "\n".join(texts))


def test_names_of_secrets_and_settings_without_secrets_stay() -> None:
    reference: dict[str, Any] = {
        "tokenSecretRef": {"name": "hub", "key": "token"},
        "secretName": "keys",
        "imagePullSecrets": [{"name": "a"}],
    }
    assert shown_object(reference) == reference
    env = [
        {"name": "INFERENCE_OPERATOR_DNS_STALENESS_SECONDS", "value": "35"},
        {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
    ]
    assert shown_object({"env": env}) == {"env": env}


def test_hostile_objects_are_written_without_an_error() -> None:
    deep: dict[str, Any] = {}
    for _ in range(500):
        deep = {"a": [deep]}
    assert "[hidden]" in json.dumps(shown_object(deep))
    text = "[" * 5000
    assert shown_object({"a": text, "env": [7, None, "x"]}) == {"a": text, "env": ["[hidden]"] * 3}
    assert archive_of({"a": "\x00\x1b[2J"}, "\udc80")


@pytest.mark.parametrize(
    ("name", "about", "is_wanted"),
    [("qwen", "qwen", True), ("qwen", "qwen-engine-a", True), ("qwen", "my-qwen", False), ("", "other", True)],
)
def test_events_are_those_of_the_resource(name: str, about: str, *, is_wanted: bool) -> None:
    assert _is_about({"involvedObject": {"name": about}}, name) is is_wanted


class Full(io.FileIO):
    """A file on a full disk."""

    def write(self, _: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_file_that_cannot_be_written_whole_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fdopen", Full)
    with pytest.raises(UsageError, match="No space left on device"):
        write(tmp_path / "a.tar.gz", b"x")
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_new_and_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    write(path, b"x")
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(UsageError, match="exists already"):
        write(path, b"y")
    with pytest.raises(UsageError, match="No such file"):
        write(tmp_path / "b" / "c", b"y")
