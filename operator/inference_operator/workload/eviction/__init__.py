"""Whether a pod may go now, and which goes first: the rules of each reason for which an engine or a router ends.

- `rollout`: another pod template. Each new engine starts before an old one ends, or after it.
- `drain`: its node is leaving. Its successor starts before it ends, where there is a place for one.
- `stall`: it makes no progress. It leaves the traffic first; its pods are deleted later, those of one engine at a time.
- `lost_nodes`: its node does not answer, and Kubernetes has begun to delete it. It is deleted at once.
- `hardware_errors`: a GPU of its node is broken. Its engine is deleted once for each node.
- `failed_pods`: its node has rejected or evicted it, and it has been replaced: three are kept.
- `half_placed`: its group holds nodes that an older group lacks. The group gets no pods for a time.
- `budget`: how many pods an eviction by others leaves.

All of them count engines that serve (`EngineView.is_serving`): a group is one engine.
"""
