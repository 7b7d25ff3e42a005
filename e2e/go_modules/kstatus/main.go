// kstatus reads a JSON list of Kubernetes objects from standard input and prints a JSON list with the status of each one.
package main

import (
	"encoding/json"
	"io"
	"log"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	numbers "k8s.io/apimachinery/pkg/util/json"
)

type answer struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

func main() {
	given, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	var objects []interface{}
	if err := numbers.Unmarshal(given, &objects); err != nil {
		log.Fatalf("standard input is no JSON list of objects: %v", err)
	}
	answers := make([]answer, 0, len(objects))
	for _, object := range objects {
		result, err := status.Compute(&unstructured.Unstructured{Object: object.(map[string]interface{})})
		if err != nil {
			log.Fatalf("kstatus cannot read an object: %v", err)
		}
		answers = append(answers, answer{Status: result.Status.String(), Message: result.Message})
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		log.Fatal(err)
	}
}
