// Package volcano names the types whose CustomResourceDefinitions are generated.
package volcano

import _ "volcano.sh/apis/pkg/apis/scheduling/v1beta1" // the types
