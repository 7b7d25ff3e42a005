// argo-cd reads the ConfigMap argocd-cm whose path is the first argument, and a JSON list of {"object", "action"} from
// standard input. It prints what Argo CD makes of each one: its health, the actions that it offers, and the object after the
// action.
//
// With the arguments CONFIGMAP sync|diff KUBECONFIG, it reads manifests from standard input, as a JSON list. It syncs them as Argo
// CD does, or prints which of them Argo CD would show as OutOfSync.
package main

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"os"
	"sort"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/health"
	"github.com/argoproj/argo-cd/v3/util/lua"
	"github.com/argoproj/argo-cd/v3/util/settings"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	numbers "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"
)

type answer struct {
	Status  health.HealthStatusCode `json:"status"`
	Message string                  `json:"message"`
	Actions []action                `json:"actions"`
	Result  map[string]interface{}  `json:"result,omitempty"`
}

type action struct {
	Name     string `json:"name"`
	Disabled bool   `json:"disabled"`
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// virtualMachine has the customizations of a ConfigMap, read as Argo CD reads them.
func virtualMachine(path string) lua.VM {
	text, err := os.ReadFile(path)
	check(err)
	config := &corev1.ConfigMap{}
	check(yaml.Unmarshal(text, config))
	config.Labels = map[string]string{"app.kubernetes.io/part-of": "argocd"}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "argocd-secret", Namespace: config.Namespace, Labels: config.Labels},
	}
	client := fake.NewClientset(config, secret)
	overrides, err := settings.NewSettingsManager(context.Background(), client, config.Namespace).GetResourceOverrides()
	check(err)
	return lua.VM{ResourceOverrides: overrides}
}

func answered(vm lua.VM, object *unstructured.Unstructured, asked string) answer {
	script, _, err := vm.GetHealthScript(object)
	check(err)
	if script == "" {
		log.Fatal("Argo CD finds no health check for the object")
	}
	found, err := vm.ExecuteHealthLua(object, script)
	check(err)
	result := answer{Status: found.Status, Message: found.Message}
	discovery, err := vm.GetResourceActionDiscovery(object)
	check(err)
	offered, err := vm.ExecuteResourceActionDiscovery(object, discovery)
	check(err)
	for _, one := range offered {
		result.Actions = append(result.Actions, action{one.Name, one.Disabled})
	}
	sort.Slice(result.Actions, func(i, j int) bool { return result.Actions[i].Name < result.Actions[j].Name })
	if asked != "" {
		definition, err := vm.GetResourceAction(object, asked)
		check(err)
		impacted, err := vm.ExecuteResourceAction(object, definition.ActionLua, nil)
		check(err)
		result.Result = impacted[0].UnstructuredObj.Object
	}
	return result
}

func main() {
	if len(os.Args) > 2 {
		onCluster(virtualMachine(os.Args[1]), os.Args[2], os.Args[3])
		return
	}
	given, err := io.ReadAll(os.Stdin)
	check(err)
	var asked []interface{}
	check(numbers.Unmarshal(given, &asked))
	vm := virtualMachine(os.Args[1])
	answers := make([]answer, 0, len(asked))
	for _, one := range asked {
		request := one.(map[string]interface{})
		object := &unstructured.Unstructured{Object: request["object"].(map[string]interface{})}
		wanted, _ := request["action"].(string)
		answers = append(answers, answered(vm, object, wanted))
	}
	check(json.NewEncoder(os.Stdout).Encode(answers))
}
