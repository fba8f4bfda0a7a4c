package simulate_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// tightScenario has up to three machine types in three zones each with few nodes to spare, and
// workloads that mostly look at what is around them, all known at the start.
func tightScenario(r *rand.Rand) string {
	var b strings.Builder
	one := func(of ...string) string { return of[r.IntN(len(of))] }
	fmt.Fprintf(&b, "autoscaler: {mode: MODE}\noptions: {randomSeed: SEED, expander: %s, scanInterval: %s}\nmachines:\n",
		one("least-waste", "most-pods", "least-nodes", "random"), one("10s", "10s", "1s", "30s"))
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

// fewerRun says when fewer pods run than in all runs of Cluster Autoscaler alone, or that more nodes are ordered though no more pods
// run in the end.
func fewerRun(got *v1alpha1.ScenarioReportStatus, stock []*v1alpha1.ScenarioReportStatus, slack time.Duration) string {
	nodes, pending, instants := 0, math.MaxInt, map[time.Duration]bool{}
	for _, s := range stock {
		nodes, pending = max(nodes, s.NodesOrdered), min(pending, s.Pending)
		for _, row := range s.History {
			instants[row.At.Duration] = true
		}
	}
	if got.NodesOrdered > nodes && got.Pending >= pending {
		return fmt.Sprintf("%d nodes ordered, alone at most %d", got.NodesOrdered, nodes)
	}
	for _, at := range slices.Sorted(maps.Keys(instants)) {
		least := math.MaxInt
		for _, s := range stock {
			least = min(least, runningAt(s, at))
		}
		if running := runningAt(got, at+slack); running < least {
			return fmt.Sprintf("%d pods run after %s, alone at least %d after %s", running, at+slack, least, at)
		}
	}
	return ""
}

// runningAt is how many pods run at a time.
func runningAt(s *v1alpha1.ScenarioReportStatus, at time.Duration) int {
	next, found := slices.BinarySearchFunc(s.History, at,
		func(row v1alpha1.HistoryRow, at time.Duration) int { return cmp.Compare(row.At.Duration, at) })
	if !found {
		next--
	}
	if next < 0 {
		return 0
	}
	return s.History[next].Running
}
