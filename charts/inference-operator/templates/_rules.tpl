{{/*
What the operator may do: the only place that says so. A ClusterRole (whole cluster) or one Role per namespace carries it.
It reads no Secret, opens no shell and no proxy into a pod, and never writes the spec of an InferenceDeployment.
*/}}
{{- define "inference-operator.rules" -}}
- apiGroups: [inference-operator.dev]
  resources: [inferencedeployments]
  verbs: [list, watch]
- apiGroups: [inference-operator.dev]
  resources: [inferencedeployments/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [configmaps, services]
  verbs: [get, list, watch, create, patch]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, delete]
{{- if not .Values.scope.namespaces }}
- apiGroups: [""]
  resources: [nodes]
  verbs: [list]
{{- end }}
{{- if .Values.settings.readLogs }}
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
{{- end }}
{{- end -}}
