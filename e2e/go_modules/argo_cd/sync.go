package main

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"os"
	"time"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/cache"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync/common"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/kube"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/tracing"
	"github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	argodiff "github.com/argoproj/argo-cd/v3/util/argo/diff"
	"github.com/argoproj/argo-cd/v3/util/argo/normalizers"
	"github.com/argoproj/argo-cd/v3/util/lua"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	numbers "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2/textlogger"
)

// limit is how long one sync may take. It ends early when a resource of a wave is Degraded.
const limit = 3 * time.Minute

var kubectl = &kube.KubectlCmd{Log: textlogger.NewLogger(textlogger.NewConfig()), Tracer: tracing.NopTracer{}}

// synced is what a sync did with one resource.
type synced struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Result  string `json:"result"`
	Phase   string `json:"phase"`
	Message string `json:"message"`
}

func manifests() []*unstructured.Unstructured {
	given, err := io.ReadAll(os.Stdin)
	check(err)
	var found []interface{}
	check(numbers.Unmarshal(given, &found))
	objects := make([]*unstructured.Unstructured, 0, len(found))
	for _, one := range found {
		objects = append(objects, &unstructured.Unstructured{Object: one.(map[string]interface{})})
	}
	return objects
}

// syncObjects applies objects wave by wave, as Argo CD syncs an Application: a wave begins when the one before is healthy. Each
// step has the state of the last one and new live objects, as in Argo CD's controller (controller/sync.go of v3.5).
func syncObjects(config *rest.Config, vm lua.VM, objects []*unstructured.Unstructured) []synced {
	wanted := map[kube.ResourceKey]bool{}
	for _, one := range objects {
		wanted[kube.GetResourceKey(one)] = true
	}
	known := cache.NewClusterCache(config, cache.SetPopulateResourceInfoHandler(
		func(one *unstructured.Unstructured, _ bool) (any, bool) { return nil, wanted[kube.GetResourceKey(one)] }))
	check(known.EnsureSynced())
	defer known.Invalidate()
	managed := func(one *cache.Resource) bool { return wanted[one.ResourceKey()] }
	phase, message, results := common.OperationRunning, "", []common.ResourceSyncResult{}
	for started := metav1.Now(); !phase.Completed(); time.Sleep(time.Second) {
		if time.Since(started.Time) > limit {
			log.Fatalf("the sync has not ended: %s", message)
		}
		live, err := known.GetManagedLiveObjs(objects, managed)
		check(err)
		state := sync.Reconcile(objects, live, metav1.NamespaceDefault, known)
		step, end, err := sync.NewSyncContext("revision", state, config, config, kubectl, metav1.NamespaceDefault,
			sync.WithInitialState(phase, message, results, started),
			sync.WithHealthOverride(lua.ResourceHealthOverrides(vm.ResourceOverrides)))
		check(err)
		step.Sync()
		phase, message, results = step.GetState()
		end()
	}
	answers := make([]synced, 0, len(results))
	for _, one := range results {
		key := one.ResourceKey
		answers = append(answers, synced{key.Kind, key.Name, string(one.Status), string(one.HookPhase), one.Message})
	}
	return answers
}

// different names the objects that Argo CD would show as OutOfSync.
func different(config *rest.Config, vm lua.VM, objects []*unstructured.Unstructured) []string {
	client, err := dynamic.NewForConfig(config)
	check(err)
	resources, err := kubectl.GetAPIResources(config, false, cache.NewNoopSettings())
	check(err)
	settings, err := argodiff.NewDiffConfigBuilder().
		WithDiffSettings(nil, vm.ResourceOverrides, false, normalizers.IgnoreNormalizerOpts{}).
		WithTracking("", string(v1alpha1.TrackingMethodAnnotation)).
		WithNoCache().
		Build()
	check(err)
	names := []string{}
	for _, one := range objects {
		live := read(client, resources, one)
		found, err := argodiff.StateDiff(live, one, settings)
		check(err)
		if found.Modified {
			names = append(names, one.GetKind()+"/"+one.GetName())
		}
	}
	return names
}

// read returns an object as the API server has it.
func read(client dynamic.Interface, resources []kube.APIResourceInfo, one *unstructured.Unstructured) *unstructured.Unstructured {
	kind := one.GroupVersionKind()
	for _, resource := range resources {
		if resource.GroupKind == kind.GroupKind() && resource.GroupVersionResource.Version == kind.Version {
			in := dynamic.ResourceInterface(client.Resource(resource.GroupVersionResource))
			if resource.Meta.Namespaced {
				in = client.Resource(resource.GroupVersionResource).Namespace(one.GetNamespace())
			}
			live, err := in.Get(context.Background(), one.GetName(), metav1.GetOptions{})
			check(err)
			return live
		}
	}
	log.Fatalf("the API server has no kind %s", kind)
	return nil
}

// onCluster prints the answer of `sync` or `diff` for the manifests on standard input.
func onCluster(vm lua.VM, command, kubeconfig string) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	check(err)
	var answer any
	switch command {
	case "sync":
		answer = syncObjects(config, vm, manifests())
	case "diff":
		answer = different(config, vm, manifests())
	default:
		log.Fatalf("unknown command %s", command)
	}
	check(json.NewEncoder(os.Stdout).Encode(answer))
}
