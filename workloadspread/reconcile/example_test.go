package reconcile_test

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/evenkeel/evenkeel/workloadspread/reconcile"
)

func ExampleNew() {
	metrics, err := reconcile.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		fmt.Println(err)
		return
	}
	c := reconcile.New(nil, reconcile.Options{Metrics: metrics})
	fmt.Println(c.Name())
	// Output: workloadspread
}
