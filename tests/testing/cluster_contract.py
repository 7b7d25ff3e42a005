"""The behaviour that the operator requires of a cluster; each implementation of `Cluster` passes this suite.

A subclass gives three fixtures: the cluster, an existing namespace, and another field manager. On a real API server,
the InferenceDeployment CRD must be installed and no operator may run.
"""

from typing import Protocol

import pytest

from inference_operator.controller.cluster import Cluster, ConflictError, NotFoundError
from inference_operator.manifest import API_VERSION, CONFIG_MAP, INFERENCE_DEPLOYMENT, KIND, Manifest, Ref
from inference_operator.objects.child import ADOPT_ANNOTATION, BEGUN
from tests.testing.listings import listing

OTHER_UID = "11111111-2222-3333-4444-555555555555"


class OtherManager(Protocol):
    """Another field manager that writes to the cluster."""

    async def apply(self, manifest: Manifest) -> Manifest:
        """Server-side apply by force, under a field manager that is not the operator's."""


def config_map(namespace: str, name: str = "settings", *, uid: str | None = None, **data: str) -> Manifest:
    identity = {"uid": uid} if uid else {}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, **identity},
        "data": data,
    }


def service_of_models(namespace: str, *, env: dict[str, str] | None = None, replicas: int = 1) -> Manifest:
    variables = [{"name": name, "value": value} for name, value in (env or {}).items()]
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": "qwen", "namespace": namespace},
        "spec": {
            "model": {"source": "hf://Qwen/Qwen3-8B"},
            "replicas": replicas,
            **({"engine": {"env": variables}} if variables else {}),
        },
    }


def status_of(manifest: Manifest, **status: object) -> Manifest:
    meta = manifest["metadata"]
    return {
        "apiVersion": manifest["apiVersion"],
        "kind": manifest["kind"],
        "metadata": {name: meta[name] for name in ("name", "namespace", "resourceVersion")},
        "status": status,
    }


def version(manifest: Manifest) -> int:
    return int(manifest["metadata"]["resourceVersion"])


async def apply(cluster: Cluster, manifest: Manifest, *, force: bool = True) -> Manifest:
    return await cluster.apply(Ref.of(manifest), manifest, force=force)


class ClusterContract:
    """Everything that the reconciler takes for granted."""

    async def test_get_of_an_object_that_does_not_exist_returns_none(self, cluster: Cluster, namespace: str) -> None:
        assert await cluster.get(Ref(CONFIG_MAP, namespace, "nothing")) is None

    async def test_apply_creates_and_returns_the_object(self, cluster: Cluster, namespace: str) -> None:
        body = config_map(namespace, a="1")
        made = await apply(cluster, body, force=False)
        assert made["data"] == {"a": "1"}
        assert made["metadata"]["uid"]
        assert Ref.of(made) == Ref.of(body)
        assert await cluster.get(Ref.of(body)) == made

    async def test_apply_of_an_equal_object_keeps_the_resource_version(self, cluster: Cluster, namespace: str) -> None:
        made = await apply(cluster, config_map(namespace, a="1"))
        again = await apply(cluster, config_map(namespace, a="1"))
        assert version(again) == version(made)

    async def test_a_changed_object_has_a_greater_resource_version_and_the_same_uid(
        self, cluster: Cluster, namespace: str
    ) -> None:
        made = await apply(cluster, config_map(namespace, a="1"))
        changed = await apply(cluster, config_map(namespace, a="2"))
        assert version(changed) > version(made)
        assert changed["metadata"]["uid"] == made["metadata"]["uid"]

    async def test_resource_versions_increase_across_all_objects(self, cluster: Cluster, namespace: str) -> None:
        first = await apply(cluster, config_map(namespace, "first", a="1"))
        second = await apply(cluster, config_map(namespace, "second", a="1"))
        assert version(second) > version(first)

    async def test_the_generation_increases_only_with_changes_of_the_spec(
        self, cluster: Cluster, namespace: str
    ) -> None:
        made = await apply(cluster, service_of_models(namespace))
        assert made["metadata"]["generation"] == 1
        labelled = service_of_models(namespace)
        labelled["metadata"]["labels"] = {"team": "a"}
        made = await apply(cluster, labelled)
        assert made["metadata"]["generation"] == 1
        told = await cluster.apply_status(Ref.of(made), status_of(made, observedGeneration=1))
        assert told is not None
        assert told["metadata"]["generation"] == 1
        assert (await apply(cluster, service_of_models(namespace, replicas=3)))["metadata"]["generation"] == 2

    async def test_a_field_that_is_no_longer_applied_is_removed(self, cluster: Cluster, namespace: str) -> None:
        await apply(cluster, config_map(namespace, a="1", b="2"))
        assert (await apply(cluster, config_map(namespace, b="2")))["data"] == {"b": "2"}

    async def test_a_list_item_that_is_no_longer_applied_is_removed(self, cluster: Cluster, namespace: str) -> None:
        await apply(cluster, service_of_models(namespace, env={"A": "1", "B": "2"}))
        left = await apply(cluster, service_of_models(namespace, env={"B": "3"}))
        assert left["spec"]["engine"]["env"] == [{"name": "B", "value": "3"}]

    async def test_apply_keeps_fields_of_another_field_manager(
        self, cluster: Cluster, namespace: str, other_manager: OtherManager
    ) -> None:
        await apply(cluster, config_map(namespace, a="1"))
        await other_manager.apply(config_map(namespace, b="2"))
        assert (await apply(cluster, config_map(namespace, a="3")))["data"] == {"a": "3", "b": "2"}

    async def test_apply_without_force_of_another_managers_field_is_a_conflict(
        self, cluster: Cluster, namespace: str, other_manager: OtherManager
    ) -> None:
        theirs = await other_manager.apply(config_map(namespace, a="1"))
        with pytest.raises(ConflictError):
            await apply(cluster, config_map(namespace, a="2"), force=False)
        assert await cluster.get(Ref.of(theirs)) == theirs

    async def test_apply_without_force_of_another_managers_value_is_no_conflict(
        self, cluster: Cluster, namespace: str, other_manager: OtherManager
    ) -> None:
        await other_manager.apply(config_map(namespace, a="1"))
        assert (await apply(cluster, config_map(namespace, a="1"), force=False))["data"] == {"a": "1"}

    async def test_apply_with_force_takes_a_field_of_another_manager(
        self, cluster: Cluster, namespace: str, other_manager: OtherManager
    ) -> None:
        await other_manager.apply(config_map(namespace, a="1"))
        assert (await apply(cluster, config_map(namespace, a="2")))["data"] == {"a": "2"}
        assert (await apply(cluster, config_map(namespace, b="2")))["data"] == {"b": "2"}

    async def test_a_shared_field_stays_until_both_managers_no_longer_apply_the_field(
        self, cluster: Cluster, namespace: str, other_manager: OtherManager
    ) -> None:
        await apply(cluster, config_map(namespace, a="1", b="1"))
        await other_manager.apply(config_map(namespace, a="1"))
        assert (await apply(cluster, config_map(namespace, b="1")))["data"] == {"a": "1", "b": "1"}

    async def test_who_adopts_an_object_removes_content_of_the_manager_that_made_it(
        self, cluster: Cluster, other_manager: OtherManager, namespace: str
    ) -> None:
        holder = await apply(cluster, config_map(namespace, "holder"))
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "holder", "uid": holder["metadata"]["uid"]}
        made = await other_manager.apply(config_map(namespace, a="1", b="2"))
        desired = config_map(namespace, a="1")
        desired["metadata"] |= {"labels": {"team": "a"}, "ownerReferences": [owner]}
        with pytest.raises(ConflictError):
            await cluster.adopt(Ref.of(made), version=holder["metadata"]["resourceVersion"], desired=desired)
        with pytest.raises(ConflictError):
            await cluster.adopt(Ref(CONFIG_MAP, namespace, "nothing"), version="1", desired=desired)
        await cluster.adopt(Ref.of(made), version=made["metadata"]["resourceVersion"], desired=desired)
        adopted = await cluster.get(Ref.of(made))
        assert adopted is not None
        assert adopted["metadata"]["ownerReferences"] == [owner]
        assert adopted["data"] == {"a": "1", "b": "2"}
        assert adopted["metadata"]["annotations"][ADOPT_ANNOTATION] == BEGUN
        ours = await apply(cluster, desired)
        assert (ours["data"], ours["metadata"]["ownerReferences"]) == ({"a": "1"}, [owner])
        without_owner = (await apply(cluster, config_map(namespace, a="1")))["metadata"]
        assert not without_owner.keys() & {"ownerReferences", "labels", "annotations"}

    async def test_who_adopts_an_object_that_it_has_applied_leaves_the_content_of_others(
        self, cluster: Cluster, other_manager: OtherManager, namespace: str
    ) -> None:
        made = await apply(cluster, config_map(namespace, a="1"))
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "settings", "uid": made["metadata"]["uid"]}
        desired = config_map(namespace, a="1")
        desired["metadata"] |= {"labels": {"team": "a"}, "ownerReferences": [owner]}
        edited = await other_manager.apply(config_map(namespace, b="2"))
        await cluster.adopt(Ref.of(made), version=edited["metadata"]["resourceVersion"], desired=desired)
        assert (await apply(cluster, desired))["data"] == {"a": "1", "b": "2"}

    async def test_managed_fields_name_the_field_manager(self, cluster: Cluster, namespace: str) -> None:
        made = await apply(cluster, config_map(namespace, a="1"))
        assert [field["manager"] for field in made["metadata"]["managedFields"]] == ["inference-operator"]

    async def test_apply_with_the_uid_of_the_object_is_accepted(self, cluster: Cluster, namespace: str) -> None:
        made = await apply(cluster, config_map(namespace, a="1"))
        changed = await apply(cluster, config_map(namespace, uid=made["metadata"]["uid"], a="2"))
        assert changed["data"] == {"a": "2"}

    async def test_apply_with_another_uid_is_a_conflict(self, cluster: Cluster, namespace: str) -> None:
        made = await apply(cluster, config_map(namespace, a="1"))
        with pytest.raises(ConflictError):
            await apply(cluster, config_map(namespace, uid=OTHER_UID, a="2"))
        assert await cluster.get(Ref.of(made)) == made

    async def test_apply_with_a_uid_does_not_create_an_absent_object(self, cluster: Cluster, namespace: str) -> None:
        body = config_map(namespace, uid=OTHER_UID, a="1")
        with pytest.raises(ConflictError):
            await apply(cluster, body)
        assert await cluster.get(Ref.of(body)) is None

    async def test_create_of_a_new_object_returns_the_object(self, cluster: Cluster, namespace: str) -> None:
        body = config_map(namespace, a="1")
        made = await cluster.create(Ref.of(body), body)
        assert made["data"] == {"a": "1"}
        assert await cluster.get(Ref.of(body)) == made
        assert (await apply(cluster, config_map(namespace, b="2")))["data"] == {"b": "2"}

    async def test_create_of_an_existing_name_is_a_conflict(
        self, cluster: Cluster, other_manager: OtherManager, namespace: str
    ) -> None:
        held = await other_manager.apply(config_map(namespace, a="1"))
        for body in (config_map(namespace, b="1"), config_map(namespace, a="1")):
            with pytest.raises(ConflictError):
                await cluster.create(Ref.of(body), body)
        assert await cluster.get(Ref.of(held)) == held

    async def test_a_listing_returns_all_objects_that_match_its_selectors(
        self, cluster: Cluster, namespace: str
    ) -> None:
        for name, labels in {"one": {"team": "a"}, "two": {"team": "a", "tier": "x"}, "three": {"team": "b"}}.items():
            body = config_map(namespace, name, a="1")
            body["metadata"]["labels"] = labels
            made = await apply(cluster, body)
        found = await listing(cluster, CONFIG_MAP, namespace=namespace, selector="team=a,tier=x")
        assert [Ref.of(m) for m in found.items] == [Ref(CONFIG_MAP, namespace, "two")]
        of_a = await listing(cluster, CONFIG_MAP, namespace=namespace, selector="team=a")
        assert {m["metadata"]["name"] for m in of_a.items} == {"one", "two"}
        everything = await listing(cluster, CONFIG_MAP, namespace=namespace)
        del made["metadata"]["managedFields"]  # half of an object, and nothing reads it
        assert made in list(everything.items)
        assert everything.namespace == namespace
        assert made in list((await listing(cluster, CONFIG_MAP)).items)
        assert everything.version >= max(version(m) for m in everything.items)

    async def test_a_listing_has_the_resource_version_of_its_time(self, cluster: Cluster, namespace: str) -> None:
        before = await listing(cluster, CONFIG_MAP, namespace=namespace)
        made = await apply(cluster, config_map(namespace, a="1"))
        after = await listing(cluster, CONFIG_MAP, namespace=namespace)
        assert before.version < version(made) <= after.version

    async def test_delete_requires_the_current_resource_version(self, cluster: Cluster, namespace: str) -> None:
        first = await apply(cluster, config_map(namespace, a="1"))
        second = await apply(cluster, config_map(namespace, a="2"))
        uid = first["metadata"]["uid"]
        with pytest.raises(ConflictError):
            await cluster.delete(Ref.of(first), uid=uid, version=first["metadata"]["resourceVersion"])
        await cluster.delete(Ref.of(first), uid=uid, version=second["metadata"]["resourceVersion"])
        assert await cluster.get(Ref.of(first)) is None

    async def test_delete_requires_the_uid_of_the_object(self, cluster: Cluster, namespace: str) -> None:
        made = await apply(cluster, config_map(namespace, a="1"))
        with pytest.raises(ConflictError):
            await cluster.delete(Ref.of(made), uid=OTHER_UID)
        await cluster.delete(Ref.of(made), uid=made["metadata"]["uid"])
        assert await cluster.get(Ref.of(made)) is None
        with pytest.raises(NotFoundError):
            await cluster.delete(Ref.of(made), uid=made["metadata"]["uid"])

    async def test_an_object_recreated_with_the_same_name_has_another_uid(
        self, cluster: Cluster, namespace: str
    ) -> None:
        first = await apply(cluster, config_map(namespace, a="1"))
        await cluster.delete(Ref.of(first), uid=first["metadata"]["uid"])
        second = await apply(cluster, config_map(namespace, a="1"))
        assert second["metadata"]["uid"] != first["metadata"]["uid"]
        assert version(second) > version(first)

    async def test_finalizers_keep_an_object_that_is_being_deleted(self, cluster: Cluster, namespace: str) -> None:
        body = config_map(namespace, a="1")
        body["metadata"]["finalizers"] = ["inference-operator.dev/test"]
        made = await apply(cluster, body)
        assert "deletionTimestamp" not in made["metadata"]
        await cluster.delete(Ref.of(made), uid=made["metadata"]["uid"])
        going = await cluster.get(Ref.of(made))
        assert going is not None
        assert going["metadata"]["deletionTimestamp"]
        await apply(cluster, config_map(namespace, a="1"))
        assert await cluster.get(Ref.of(made)) is None

    async def test_apply_of_the_spec_and_apply_of_the_status_do_not_change_each_other(
        self, cluster: Cluster, namespace: str
    ) -> None:
        made = await apply(cluster, service_of_models(namespace))
        told = await cluster.apply_status(Ref.of(made), status_of(made, url="http://qwen/v1", observedGeneration=1))
        assert told is not None
        assert told["spec"] == made["spec"]
        assert told["status"]["url"] == "http://qwen/v1"
        changed = await apply(cluster, service_of_models(namespace, replicas=2))
        assert changed["status"] == told["status"]

    async def test_applying_an_equal_status_keeps_the_resource_version(self, cluster: Cluster, namespace: str) -> None:
        made = await apply(cluster, service_of_models(namespace))
        told = await cluster.apply_status(Ref.of(made), status_of(made, url="u"))
        assert told is not None
        again = await cluster.apply_status(Ref.of(made), status_of(told, url="u"))
        assert again is not None
        assert version(again) == version(told) > version(made)

    async def test_a_status_field_that_is_no_longer_applied_is_removed(self, cluster: Cluster, namespace: str) -> None:
        made = await apply(cluster, service_of_models(namespace))
        first = await cluster.apply_status(Ref.of(made), status_of(made, url="u", ready="0/1"))
        assert first is not None
        told = await cluster.apply_status(Ref.of(made), status_of(first, ready="1/1"))
        assert told is not None
        assert told["status"]["ready"] == "1/1"
        assert "url" not in told["status"]

    async def test_apply_status_of_a_deleted_or_changed_object_returns_none(
        self, cluster: Cluster, namespace: str
    ) -> None:
        made = await apply(cluster, service_of_models(namespace))
        await apply(cluster, service_of_models(namespace, replicas=2))
        assert await cluster.apply_status(Ref.of(made), status_of(made, url="u")) is None
        absent = {**made, "metadata": {**made["metadata"], "name": "absent"}}
        ref = Ref(INFERENCE_DEPLOYMENT, namespace, "absent")
        assert await cluster.apply_status(ref, status_of(absent, url="u")) is None
