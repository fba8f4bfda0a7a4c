package simulate_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/internal/simulate"
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

// TestModesOnTightFleets: over many random fleets no mode leaves notably more pods waiting than Cluster Autoscaler alone,
// lets them wait notably longer, or orders notably more nodes. Of one fleet that need not be so: each mode draws its own
// options.
func TestModesOnTightFleets(t *testing.T) {
	type total struct{ pending, nodes, waited int64 }
	sums := map[simulate.Mode]*total{}
	for _, mode := range simulate.Modes() {
		sum := &total{}
		sums[mode] = sum
		for seed := range *tightWorlds {
			spec := tightScenario(rand.New(rand.NewPCG(seed, 5)))
			s := run(t, loadFiles(t, scenario(fmt.Sprintf("autoscaler: {mode: %s}\n", mode)+spec), nil)).Status
			sum.pending, sum.nodes, sum.waited = sum.pending+int64(s.Pending), sum.nodes+int64(s.NodesOrdered), sum.waited+s.PendingTime.PodSeconds
		}
		notMore := func(what string, got, stock int64) {
			if got > stock+stock/20 {
				t.Errorf("%s: %d %s, with Cluster Autoscaler alone %d", mode, got, what, stock)
			}
		}
		stock := sums[simulate.Stock] // the first mode
		notMore("pods wait in the end", sum.pending, stock.pending)
		notMore("nodes ordered", sum.nodes, stock.nodes)
		notMore("seconds waited", sum.waited, stock.waited)
	}
}
