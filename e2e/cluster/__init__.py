"""A Kubernetes on this machine for tests and demos, without Docker, and the same commands for somebody else's.

    python -m e2e.cluster up [--name N] [--level control-plane|node] [--gpu-nodes K]
    python -m e2e.cluster up --provider existing --context CONTEXT
    python -m e2e.cluster status | kubeconfig | env | load-image ARCHIVE... | down [--purge]

Two levels. *Control plane*: the real etcd, API server, controller manager and scheduler, and KWOK nodes with GPUs,
on which pods become Ready without running; needs no root, and many run side by side. *Node*: beside it containerd,
kubelet, kube-proxy and CoreDNS, so that pods really run; needs root.

It imports nothing of the operator. From Python: `from e2e.cluster.local import up, down`.
"""
