import pytest
from pydantic import ValidationError

from inference_operator.settings import PREFIX, Settings, setting_errors


def test_settings_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "GPU_ENGINE_IMAGE": "example.com/gpu:1",
        "NAMESPACES": "a, b,,c",
        "RESYNC_SECONDS": "15",
        "LOG_FORMAT": "text",
        "SOMETHING_ELSE": "ignored",
    }.items():
        monkeypatch.setenv(PREFIX + name, value)
    settings = Settings()
    assert settings.gpu_engine_image == "example.com/gpu:1"
    assert settings.namespaces == ("a", "b", "c")
    assert (settings.resync_seconds, settings.log_format) == (15, "text")


@pytest.mark.parametrize("value", ["", " ", ","])
def test_an_empty_namespaces_setting_means_the_whole_cluster(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(f"{PREFIX}NAMESPACES", value)
    assert Settings().namespaces == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DNS_STALENESS_SECONDS", "0"),
        ("RESYNC_SECONDS", "never"),
        ("LOG_FORMAT", "xml"),
        ("HTTP_PORT", "65536"),
        ("IMAGE_PULL_POLICY", "Sometimes"),
        ("READ_LOGS", "maybe"),
        ("CLUSTER_DOMAIN", "not a domain"),
        ("LEASE_NAME", "Not a name"),
        ("LEASE_RENEW_SECONDS", "10.5"),
        ("WRITE_TIMEOUT_SECONDS", "10"),
    ],
)
def test_an_invalid_environment_variable_is_named_on_a_single_line(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(PREFIX + name, value)
    with pytest.raises(ValidationError) as error:
        Settings()
    (complaint,) = setting_errors(error.value)
    assert complaint.startswith(f"{PREFIX}{name}: ")
    assert "\n" not in complaint


def test_a_lease_duration_too_short_for_the_write_timeout_is_refused_with_the_variable_to_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(f"{PREFIX}LEASE_DURATION_SECONDS", "25")
    with pytest.raises(ValidationError) as error:
        Settings()
    (complaint,) = setting_errors(error.value)
    assert complaint.startswith(f"{PREFIX}WRITE_TIMEOUT_SECONDS: ")
    assert complaint.endswith("must be less than the Lease's duration minus its renewal deadline, 25 - 20")
