package explain_test

import (
	"fmt"
	"io"
	"strings"

	"github.com/evenkeel/evenkeel/internal/explain"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// Two groups that differ in the label of their pool.
func Example() {
	const templates = `
apiVersion: v1
kind: Node
metadata: {name: blue, labels: {topology.kubernetes.io/zone: a, pool: blue}}
status: {capacity: {cpu: 2, memory: 8Gi}, allocatable: {cpu: 1900m, memory: 7Gi}}
---
apiVersion: v1
kind: Node
metadata: {name: green, labels: {topology.kubernetes.io/zone: b, pool: green}}
status: {capacity: {cpu: 2, memory: 8Gi}, allocatable: {cpu: 1900m, memory: 7Gi}}
`
	open := func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(templates)), nil }
	fleet, err := explain.Read(explain.Sources{Templates: "templates.yaml"}, explain.Files{Open: open})
	if err != nil {
		fmt.Println(err)
		return
	}
	index, err := nodegroupset.NewIndex(nodegroupset.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := fleet.Explain(index, "blue", "green")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Status.Answer)
	// Output:
	// blue and green are not similar, they differ by labels[pool] (blue against green); --balancing-ignore-label=pool would make them similar
}
