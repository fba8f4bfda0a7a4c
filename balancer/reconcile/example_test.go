package reconcile_test

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/evenkeel/evenkeel/balancer/reconcile"
)

func ExampleNew() {
	c := reconcile.New(reconcile.Options{Metrics: prometheus.NewRegistry()})
	// c.SetupWithManager registers it with a manager of controller-runtime, which runs it.
	fmt.Println(c.Name())
	// Output: balancer
}
