package reconcile_test

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/evenkeel/evenkeel/deletioncost"
	"github.com/evenkeel/evenkeel/deletioncost/reconcile"
)

func ExampleNew() {
	metrics, err := reconcile.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		fmt.Println(err)
		return
	}
	c := reconcile.New(reconcile.Options{Cluster: deletioncost.Spread, Metrics: metrics})
	fmt.Println(c.Name())
	// Output: deletioncost
}
