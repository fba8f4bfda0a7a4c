package metricset_test

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/internal/metricset"
)

func ExamplePassing() {
	set := metricset.New("ships_")
	docked := metricset.NewPassing(set, "docked", "1 for each ship in the port.", func(ship string) []string { return []string{ship} }, "ship")
	registry := prometheus.NewRegistry()
	fmt.Println(set.Register(registry))
	docked.Show(map[string]float64{"fram": 1, "belgica": 1})
	fmt.Println(testutil.GatherAndCount(registry))
	docked.Show(map[string]float64{"fram": 1})
	fmt.Println(testutil.GatherAndCount(registry))
	// Output:
	// <nil>
	// 2 <nil>
	// 1 <nil>
}

func Example() {
	set := metricset.New("ships_")
	metricset.Preset(set.Counter("calls_total", "Calls at ports, by result.", "port", "result"), []string{"Hamburg", "Bergen"},
		[]string{"success", "failure"})
	var gauges metricset.Gauges[int]
	gauges.Add(set, "passengers", "Passengers, by ship.", func(n int) float64 { return float64(n) })
	registry := prometheus.NewRegistry()
	fmt.Println(set.Register(registry))
	fmt.Println(set.Register(registry) != nil)

	fram := types.NamespacedName{Namespace: "north", Name: "fram"}
	gauges.See(fram, 12)
	fmt.Println(testutil.GatherAndCount(registry))
	set.ForgetObject(fram)
	fmt.Println(testutil.GatherAndCount(registry))
	set.Forget(prometheus.Labels{"port": "Bergen"})
	fmt.Println(testutil.GatherAndCount(registry))
	// Output:
	// <nil>
	// true
	// 5 <nil>
	// 4 <nil>
	// 2 <nil>
}
