// KEDA, for the CustomResourceDefinition of its ScaledObject.
module inference-operator.dev/keda

go 1.26.6

require github.com/kedacore/keda/v2 v2.21.0
