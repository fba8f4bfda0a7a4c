package simulate_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/simulate"
)

// A scenario is read, loaded and played; the report has the results.
func Example() {
	const text = `
apiVersion: evenkeel.dev/v1alpha1
kind: Scenario
metadata: {name: three-zones}
spec:
  machines:
  - {name: m5.large, resources: {cpu: 2, memory: 8Gi}}
  nodeGroups:
  - {name: a, zone: eu-west-1a, machine: m5.large, size: 1, max: 10}
  - {name: b, zone: eu-west-1b, machine: m5.large, max: 10}
  - {name: c, zone: eu-west-1c, machine: m5.large, max: 10}
  workloads:
  - {name: web, replicas: 8, requests: {cpu: 1500m}}
`
	docs, err := document.Read("three-zones.yaml", strings.NewReader(text), document.Options{Kinds: simulate.Kinds()})
	if err != nil {
		log.Fatal(err)
	}
	setup, err := simulate.Load(&docs[0], simulate.Files{})
	if err != nil {
		log.Fatal(err)
	}
	report, err := simulate.Run(context.Background(), setup, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, row := range report.Status.Timeline {
		fmt.Printf("+%s %s: %s\n", row.At.Duration, row.What, row.Text)
	}
	for _, g := range report.Status.Groups {
		fmt.Printf("%s %d -> %d\n", g.Name, g.Before, g.After)
	}
	// Output:
	// +0s pods: 8 pods of web arrived
	// +0s bound: 1 pod bound, 7 pending
	// +10s scale-up: b 0→3, a 1→3, c 0→2 (7 nodes for 7 pods; least-waste b: 62.50 % wasted (cpu 25.00 %, memory 100.00 %))
	// +1m10s nodes: 7 nodes ready (a 2, b 3, c 2)
	// +1m10s bound: 7 pods bound, 0 pending
	// a 1 -> 3
	// b 0 -> 3
	// c 0 -> 2
}
