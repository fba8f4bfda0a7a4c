package placement_test

import (
	"fmt"
	"strings"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/placement"
)

// Five replicas over two clusters, one of which may have one.
func Example() {
	files, err := document.Scan([]string{"-"}, document.Stdin(strings.NewReader(`
apiVersion: evenkeel.dev/v1alpha1
kind: FederatedReplicaSet
metadata: {name: web}
spec:
  replicas: 5
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: web}]}}
  preferences: {clusters: {paris: {weight: 1}, oslo: {weight: 1, maxReplicas: 1}}}
`)), document.Options{Kinds: document.Kinds{v1alpha1.FederatedReplicaSet{}, v1alpha1.MemberCluster{}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	dump, err := placement.Of(files)
	if err != nil {
		fmt.Println(err)
		return
	}
	all, err := dump.Explain()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(all[0].Status.Answer)
	for _, part := range all[0].Status.Steps[0].Parts {
		fmt.Println(part.Name, part.Exact, part.ByWeight, part.WithinBounds)
	}
	// Output:
	// default/web asks for 5 replicas: oslo 1, paris 4
	// oslo 2.50 3 1
	// paris 2.50 2 4
}
