// The scheduler of Kubernetes with one plugin of scheduler-plugins, Coscheduling: it places a PodGroup whole or not at
// all. The command of scheduler-plugins itself has a dozen more plugins, which take twice the time to build.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	_ "sigs.k8s.io/scheduler-plugins/apis/config/scheme" // decodes the arguments of the plugin
	"sigs.k8s.io/scheduler-plugins/pkg/coscheduling"
)

func main() {
	os.Exit(cli.Run(app.NewSchedulerCommand(app.WithPlugin(coscheduling.Name, coscheduling.New))))
}
