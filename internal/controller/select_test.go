package controller_test

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/evenkeel/evenkeel/internal/controller"
)

// named is a controller that does nothing.
type named string

func (n named) Name() string                         { return string(n) }
func (named) SetupWithManager(manager.Manager) error { return nil }

func TestSelect(t *testing.T) {
	known := []controller.Controller{named("balancer"), named("federation"), named("spread")}
	for names, want := range map[string]string{
		"":                                "balancer federation spread",
		"*":                               "balancer federation spread",
		"spread":                          "spread",
		"spread,balancer":                 "balancer spread",
		"*,-spread":                       "balancer federation",
		"-spread,*":                       "balancer federation",
		"spread,spread":                   "spread",
		"spread,-spread,balancer":         "balancer spread",
		"*,-spread,spread":                "balancer federation",
		"-spread":                         "no controller is chosen: there are balancer, federation, spread",
		"balance":                         `no controller "balance": there are balancer, federation, spread`,
		"*,-balance":                      `no controller "balance": there are balancer, federation, spread`,
		"*,-balancer,-federation":         "spread",
		"-balancer,-spread,-federation,*": "no controller is chosen: there are balancer, federation, spread",
	} {
		var list []string
		if names != "" {
			list = strings.Split(names, ",")
		}
		chosen, err := controller.Select(known, list)
		var got []string
		for _, c := range chosen {
			got = append(got, c.Name())
		}
		said := strings.Join(got, " ")
		if err != nil {
			said = err.Error()
		}
		if said != want {
			t.Errorf("%q chooses %q, want %q", names, said, want)
		}
	}
}

func ExampleSelect() {
	known := []controller.Controller{named("balancer"), named("federation"), named("spread")}
	chosen, err := controller.Select(known, []string{"*", "-federation"})
	fmt.Println(chosen, err)
	_, err = controller.Select(known, []string{"balance"})
	fmt.Println(err)
	// Output:
	// [balancer spread] <nil>
	// no controller "balance": there are balancer, federation, spread
}
