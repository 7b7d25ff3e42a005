{{/* The name of the application: the chart's, unless nameOverride is set. */}}
{{- define "inference-operator.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The full name: the release's, with the application's name unless the release carries it already. */}}
{{- define "inference-operator.fullname" -}}
{{- $name := include "inference-operator.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The labels that select the operator's pod. They never change: a Deployment's selector is immutable. */}}
{{- define "inference-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "inference-operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* The labels of every object of the chart. */}}
{{- define "inference-operator.labels" -}}
{{- with .Values.commonLabels }}
{{- toYaml . }}
{{ end -}}
{{ include "inference-operator.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "inference-operator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "inference-operator.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/* An image reference from {repository, tag, digest}: `include "inference-operator.image" (list .Values.image .)`. */}}
{{- define "inference-operator.image" -}}
{{- $image := index . 0 -}}
{{- $root := index . 1 -}}
{{- $image.repository }}:{{ $image.tag | default $root.Chart.AppVersion }}
{{- with $image.digest }}@{{ . }}{{ end -}}
{{- end -}}

{{/*
An image in the registry of imageRegistry: `include "inference-operator.inRegistry" (list REFERENCE .)`. A first part with
a dot or a colon, or `localhost`, is a registry, and is replaced.
*/}}
{{- define "inference-operator.inRegistry" -}}
{{- $image := index . 0 -}}
{{- $root := index . 1 -}}
{{- if $root.Values.imageRegistry -}}
{{- printf "%s/%s" $root.Values.imageRegistry (regexReplaceAll "^(localhost|[^/]*[.:][^/]*)/" $image "") -}}
{{- else -}}
{{- $image -}}
{{- end -}}
{{- end -}}

{{/* The operator's image without imageRegistry: a published one, or the official image of Python. */}}
{{- define "inference-operator.operatorImage" -}}
{{- if eq .Values.images "Stock" -}}
{{- .Values.stock.python -}}
{{- else -}}
{{- include "inference-operator.image" (list .Values.image .) -}}
{{- end -}}
{{- end -}}

{{/* The routers' image without imageRegistry: a published one, or the official image of HAProxy. */}}
{{- define "inference-operator.routerImage" -}}
{{- if eq .Values.images "Stock" -}}
{{- .Values.stock.haproxy -}}
{{- else -}}
{{- include "inference-operator.image" (list .Values.router.image .) -}}
{{- end -}}
{{- end -}}

{{/* The operator's own image. */}}
{{- define "inference-operator.ownImage" -}}
{{- include "inference-operator.inRegistry" (list (include "inference-operator.operatorImage" .) .) -}}
{{- end -}}
