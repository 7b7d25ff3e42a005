"""Engines of several pods, as a controller of groups would make them."""

from dataclasses import replace

from inference_operator.views.pod import PodView


def grouped(pod: PodView, size: int) -> list[PodView]:
    """The pods of one engine, each like this pod; the leader, which keeps its name and uid, first."""
    leader = replace(pod, group=f"group-{pod.name}", index=0)
    workers = [_worker(leader, index) for index in range(1, size)]
    return [leader, *workers]


def _worker(leader: PodView, index: int) -> PodView:
    return replace(
        leader,
        name=f"{leader.name}-{index}",
        uid=f"{leader.uid}-{index}",
        address=f"{leader.address}-{index}" if leader.address else "",
        node=f"{leader.node}-{index}" if leader.node else "",
        traffic=False,
        index=index,
    )
