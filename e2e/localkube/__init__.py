"""A Kubernetes on this machine for tests and demos, without Docker, and the same commands for somebody else's.

    python -m e2e.localkube up [--name N] [--level control-plane|node] [--gpu-nodes K]
    python -m e2e.localkube up --provider kind [--node-image IMAGE]
    python -m e2e.localkube up --provider existing --context CONTEXT
    python -m e2e.localkube load-image ARCHIVE...     # or - for standard input
    python -m e2e.localkube status
    eval "$(python -m e2e.localkube env)"             # PATH with kubectl and helm, and KUBECONFIG
    python -m e2e.localkube down [--purge]

From Python, where an owned cluster ends with the process that started it, however that ends:

    cluster = up("test", Level.NODE, owned=True)    # from e2e.localkube.local
    cluster.kubectl("get", "nodes")

Two levels. *Control plane*: the real etcd, API server, controller manager and scheduler, and KWOK nodes with GPUs on
which pods become Ready without running. It needs no root, and many run side by side, since each takes a slot that
decides its ports (ports.py). *Node*: beside it containerd, kubelet, kube-proxy and CoreDNS, so that pods really run.
It needs root, and lives in network, mount and process namespaces of its own, joined to the host by one cable over
which the host reaches pods and ClusterIPs (network.py). `local` volumes may point below the folder `volumes` that
`status` names. There is no route to the internet from inside, and the cluster's DNS knows only the cluster.

How it ends is what shapes it. One process (serve.py, supervisor.py) starts everything else, and the kernel ends all
of it with that process: through the parent-death signal, and at the node level through the process namespace. So
`kill -9` of any part leaves at most folders, a record and empty cgroups, which `down` or the next `up` removes. What
belongs to a cluster is found by a mark in each process's environment (processes.py), never by a name. Only the node's
image store outlives `down`, so that the next `up` of the same name finds its images; `--purge` removes it too.

Everything is built once from the module in binaries/ into the user's cache folder (and an API server of the version
before from previous/, where a test asks for it). Nothing here imports the operator.
"""
