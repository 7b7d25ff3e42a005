from inference_operator.manifest import Manifest
from inference_operator.objects.gateway_key import GATEWAY_KEY_ENTRY, GATEWAY_KEY_SECRET
from inference_operator.router.gateway_key import GATEWAY_KEY_FOLDER
from tests.testing.builders import CONFIG, ROUTERS, SERVICE_OF_ROUTERS, inference_deployment, planned

DESIRED = planned(inference_deployment()).desired
HAPROXIES: list[Manifest] = DESIRED[ROUTERS]["spec"]["template"]["spec"]["containers"]


def test_both_haproxy_processes_of_a_router_pod_listen_on_the_port_of_the_service() -> None:
    one, other = HAPROXIES
    assert one["command"] == other["command"]
    (port,) = DESIRED[SERVICE_OF_ROUTERS]["spec"]["ports"]
    assert f"bind :::{port['targetPort']} v4v6\n" in DESIRED[CONFIG]["data"]["haproxy.cfg"]


def test_each_haproxy_process_has_its_own_name_metrics_port_and_folder() -> None:
    assert 'bind :"${METRICS_PORT}"\n' in DESIRED[CONFIG]["data"]["haproxy.cfg"]
    own = [
        (
            haproxy["name"],
            haproxy["env"][0],
            [(port["name"], port["containerPort"]) for port in haproxy["ports"]],
            [mount["name"] for mount in haproxy["volumeMounts"] if mount["mountPath"] == "/run/haproxy"],
        )
        for haproxy in HAPROXIES
    ]
    assert own == [
        ("haproxy-1", {"name": "METRICS_PORT", "value": "9100"}, [("metrics-1", 9100)], ["run-1"]),
        ("haproxy-2", {"name": "METRICS_PORT", "value": "9101"}, [("metrics-2", 9101)], ["run-2"]),
    ]


def test_the_keys_of_users_are_mounted_as_a_folder_and_without_them_no_router_starts() -> None:
    desired = planned(inference_deployment(router={"keys": {"secretRef": {"name": "users"}}})).desired
    pod = desired[ROUTERS]["spec"]["template"]["spec"]
    (volume,) = [volume for volume in pod["volumes"] if volume["name"] == "api-keys"]
    assert volume["secret"] == {"secretName": "users", "items": [{"key": "keys", "path": "keys"}]}
    for haproxy in pod["containers"]:
        (mount,) = [mount for mount in haproxy["volumeMounts"] if mount["name"] == volume["name"]]
        assert mount == {"name": "api-keys", "mountPath": "/etc/haproxy-keys", "readOnly": True}
    assert "keys.lua" in desired[CONFIG]["data"]


def test_every_router_mounts_the_key_of_gateways_where_there_is_one_and_starts_without() -> None:
    pod = planned(inference_deployment()).desired[ROUTERS]["spec"]["template"]["spec"]
    (secret,) = [volume["secret"] for volume in pod["volumes"] if "secret" in volume]
    assert secret == {
        "secretName": GATEWAY_KEY_SECRET,
        "optional": True,
        "items": [{"key": GATEWAY_KEY_ENTRY, "path": GATEWAY_KEY_ENTRY}],
    }
    mounted = [mount for one in pod["containers"] for mount in one["volumeMounts"] if mount["name"] == "gateway-key"]
    assert mounted == [{"name": "gateway-key", "mountPath": GATEWAY_KEY_FOLDER, "readOnly": True}] * 2
