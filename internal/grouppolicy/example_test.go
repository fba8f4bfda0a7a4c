package grouppolicy_test

import (
	"fmt"

	"github.com/evenkeel/evenkeel/internal/grouppolicy"
)

func ExampleParse() {
	_, policies, err := grouppolicy.Parse("policies.yaml", []byte(`
apiVersion: evenkeel.dev/v1alpha1
kind: NodeGroupPolicies
spec:
  sets:
  - name: web
    policy: Proportional
    portions:
    - {name: on-demand, groups: [od-a, od-b], base: 2, weight: 20}
    - {name: spot, selector: {matchLabels: {bought: spot}}, weight: 80}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range policies[0].Portions {
		fmt.Println(p.Name, p.Base, p.Weight)
	}
	// Output:
	// on-demand 2 20
	// spot 0 80
}
