module inference-operator.dev/flux

go 1.24.0

require (
	github.com/fluxcd/helm-controller v1.6.0
	github.com/fluxcd/kustomize-controller v1.9.6
)
