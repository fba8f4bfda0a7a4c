package simulate_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

var tightWorlds = flag.Uint64("tight-worlds", 40, "how many random scenarios with tight maxima are played")

// tightScenario has up to three machine types in three zones each with few nodes to spare, and
// workloads that mostly look at what is around them, all known at the start.
func tightScenario(r *rand.Rand) string {
	var b strings.Builder
	one := func(of ...string) string { return of[r.IntN(len(of))] }
	fmt.Fprintf(&b, "options: {expander: %s, scanInterval: %s}\nmachines:\n", one("least-waste", "most-pods", "least-nodes", "random"), one("10s", "10s", "1s", "30s"))
	for m := range 3 {
		fmt.Fprintf(&b, "- {name: m%d, resources: {cpu: %s, memory: 64Gi}}\n", m, one("1", "2", "4", "16"))
	}
	b.WriteString("nodeGroups:\n")
	sameTime := r.IntN(2) == 0
	for m := range 3 {
		for _, zone := range []string{"a", "b", "c"} {
			boot := 60
			if !sameTime {
				boot = 20 + r.IntN(220)
			}
			fmt.Fprintf(&b, "- {name: m%d-%s, zone: %s, machine: m%d, max: %d, bootTime: %ds}\n", m, zone, zone, m, max(0, r.IntN(7)-3), boot)
		}
	}
	b.WriteString("workloads:\n")
	for w := range 1 + r.IntN(3) {
		spread := ""
		switch r.IntN(12) {
		case 0:
		case 1, 2:
			spread = fmt.Sprintf(", spread: [{maxSkew: %d, topologyKey: kubernetes.io/hostname}]", 1+r.IntN(3))
		default:
			spread = fmt.Sprintf(", spread: [{maxSkew: %d}]", 1+r.IntN(3))
		}
		fmt.Fprintf(&b, "- {name: w%d, replicas: %d, requests: {cpu: %dm}%s}\n", w, 1+r.IntN(35), 100*(5+r.IntN(11)), spread)
	}
	return b.String()
}

// Nodes come after different times, in rounds seconds apart, and are spread over before they are ready.
func TestNoOrderedNodeOfARandomScenarioStaysEmpty(t *testing.T) {
	for seed := range *tightWorlds {
		spec := tightScenario(rand.New(rand.NewPCG(seed, 5)))
		report := run(t, loadFiles(t, scenario(spec), nil))
		used := map[string]bool{}
		for _, p := range report.Status.Pods {
			for _, r := range p.Runs {
				used[r.Node] = true
			}
		}
		for _, n := range report.Status.Nodes {
			if n.Ordered != nil && !used[n.Name] {
				t.Errorf("seed %d: no pod ever ran on %s", seed, n.Name)
			}
		}
	}
}
