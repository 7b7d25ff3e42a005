{{/*
The only list of the operator's rights. A ClusterRole (whole cluster) or one Role per namespace contains it, and one Role in
the release's namespace contains the rights on the Lease.
The operator reads no Secret, also none of its own, opens no shell in a pod and no proxy to one, and never writes the spec of an InferenceDeployment.
*/}}
{{- define "inference-operator.rules" -}}
- apiGroups: [inference-operator.dev]
  resources: [inferencedeployments, modelgateways]
  verbs: [list, watch]
- apiGroups: [inference-operator.dev]
  resources: [inferencedeployments/status, modelgateways/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [services] # delete: the one by which routers find each other, when no user is limited any more
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [persistentvolumeclaims] # delete: never; the garbage collector does that
  verbs: [get, list, watch, create, patch]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [deployments] # delete: the routers, when another router takes over
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [statefulsets] # of engines over several nodes; delete: when there are fewer, or others replace them
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [ingresses]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [gateway.networking.k8s.io]
  resources: [httproutes]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [inference.networking.k8s.io]
  resources: [inferencepools]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [keda.sh]
  resources: [scaledobjects]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [scheduling.x-k8s.io, scheduling.volcano.sh]
  resources: [podgroups] # of engines over several nodes, for gang schedulers
  verbs: [get, list, watch, create, patch, delete]
{{- if or .Values.networkPolicies.enabled .Values.networkPolicies.withKeys }}
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}
{{- if .Values.settings.engineKeys }}
- apiGroups: [""]
  resources: [secrets] # of keys that engines ask of their routers, and routers of gateways; never read, changed or deleted
  verbs: [create]
{{- end }}
- apiGroups: [""]
  resources: [pods] # patch: a label, by which an engine without progress gets no new requests, and the deletion cost
  verbs: [list, watch, patch, delete]
- apiGroups: [""]
  resources: [events] # of a pod or Job that cannot start; only this older API selects by what an Event is about
  verbs: [list]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
- apiGroups: [authorization.k8s.io]
  resources: [localsubjectaccessreviews] # whether another operator may act in a namespace; it shows nothing of objects
  verbs: [create]
{{- if not .Values.scope.namespaces }}
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
{{- end }}
{{- if .Values.settings.readLogs }}
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
{{- end }}
{{- end -}}

{{/* The Lease of the leader election, in the release's namespace. A rule for `create` cannot name an object. */}}
{{- define "inference-operator.leaseRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "inference-operator.fullname" . }}]
  verbs: [get, update]
{{- end -}}
