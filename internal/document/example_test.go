package document_test

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/document"
)

// Every problem is reported with the path of its field.
func ExampleRead() {
	const text = `
apiVersion: evenkeel.dev/v1alpha1
kind: ReplicaDistribution
metadata: {name: web}
spec:
  replicas: 50
  targets:
  - {name: a, wieght: 2}
  - {name: b, max: many}
`
	_, err := document.Read("web.yaml", strings.NewReader(text), document.Options{})
	fmt.Println(err)

	docs, err := document.Read("web.yaml", strings.NewReader(strings.NewReplacer("wieght", "weight", "many", "10").Replace(text)),
		document.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	web := docs[0].Object.(*v1alpha1.ReplicaDistribution)
	fmt.Println(docs[0].Kind, docs[0].Name, *web.Spec.Replicas, len(web.Spec.Targets))
	// Output:
	// web.yaml: document 1: spec.targets[0].wieght: unknown field (did you mean "weight"?)
	// web.yaml: document 1: spec.targets[1].max: Invalid value: "many": must be an integer
	// ReplicaDistribution web 50 2
}

// A list is read item by item, however long it is.
func ExampleObjects() {
	const list = `
apiVersion: v1
items:
- apiVersion: v1
  kind: Pod
  metadata: {name: web-1, namespace: default}
  spec: {containers: [{resources: {requests: {cpu: 500m}}}]}
- apiVersion: v1
  kind: Service
  metadata: {name: web, namespace: default}
kind: List
`
	for item, err := range document.Objects("pods.yaml", strings.NewReader(list), document.StreamOptions{}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if pod, ok := item.Object.(*v1.Pod); ok {
			fmt.Println(item.Name, pod.Spec.Containers[0].Resources.Requests.Cpu())
		}
	}
	// Output:
	// web-1 500m
}
