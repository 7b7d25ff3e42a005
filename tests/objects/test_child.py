from inference_operator.manifest import CONFIG_MAP, Key, Owner
from inference_operator.objects.child import ADOPT_ANNOTATION, ALLOWED, adopted_version, child, is_child

FIRST, SECOND = Owner(Key("a", "b"), "1"), Owner(Key("a", "b"), "2")


def test_what_outlives_its_owner_is_no_child_of_the_next_owner_of_the_name() -> None:
    kept = child(CONFIG_MAP, "x", owner=FIRST, component="c", content={}, retain=True, outlives_owner=True)
    assert [is_child(kept, owner) for owner in (FIRST, SECOND, Owner(Key("a", "other"), "1"))] == [True, False, False]


def test_only_an_object_that_lost_its_owner_and_whose_adoption_is_allowed_is_adopted() -> None:
    desired = child(CONFIG_MAP, "x", owner=FIRST, component="c", content={})
    lost = {"metadata": {"resourceVersion": "7", "annotations": {ADOPT_ANNOTATION: ALLOWED}}}
    assert (adopted_version(desired, desired), adopted_version(lost, desired)) == (None, "7")
