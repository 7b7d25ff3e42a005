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
        ("PROMETHEUS", '{"url": "https://user:pass@prometheus.example"}'),
        ("PROMETHEUS", '{"url": "https://prometheus.example", "authModes": ["bearer"]}'),
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


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("ENGINE_DEFAULTS", "{", "is not JSON"),
        ("ENGINE_DEFAULTS", "[]", "Input should be a valid dictionary"),
        (
            "ENGINE_DEFAULTS",
            '{"scheduling": {"tolerations": [{"efect": "x"}]}}',
            "scheduling.tolerations[0].efect: Extra",
        ),
        ("ROUTER_DEFAULTS", '{"env": [{"name": "A"}]}', "env[0]: "),
        ("ROUTER_DEFAULTS", '{"limitRequestRatio": {}}', "limitRequestRatio: Extra inputs are not permitted"),
        ("COMMON_LABELS", '{"team": "a b"}', "team: String should match pattern"),
        ("POD_USERS", "Random", "Input should be 'Fixed' or 'FromPlatform'"),
        ("IMAGE_REGISTRY", "https://registry.example", "String should match pattern"),
    ],
)
def test_an_invalid_key_of_a_default_is_named_with_its_path(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, complaint: str
) -> None:
    monkeypatch.setenv(PREFIX + name, value)
    with pytest.raises(ValidationError) as error:
        Settings()
    (line,) = setting_errors(error.value)
    assert line.startswith(f"{PREFIX}{name}: ")
    assert complaint in line


@pytest.mark.parametrize("name", ["ENGINE_DEFAULTS", "ROUTER_DEFAULTS", "COMMON_LABELS"])
@pytest.mark.parametrize("value", ["", "{}"])
def test_an_empty_object_in_a_variable_means_no_defaults(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    without = Settings()
    monkeypatch.setenv(PREFIX + name, value)
    assert Settings() == without


def test_the_image_registry_replaces_the_registry_of_every_image_of_the_operator() -> None:
    digest = f"sha256:{'0' * 64}"
    settings = Settings(image_registry="mirror.example:5000/hub", router_image=f"ghcr.io/a/router@{digest}")
    images = {name: value for name, value in settings.model_dump().items() if name.endswith("_image")}
    assert len(images) == 5
    assert all(image.startswith("mirror.example:5000/hub/") for image in images.values())
    assert settings.gpu_engine_image.removeprefix("mirror.example:5000/hub/") == (
        Settings().gpu_engine_image.removeprefix("docker.io/")
    )
    assert settings.router_image == f"mirror.example:5000/hub/a/router@{digest}"
