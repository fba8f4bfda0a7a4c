package expander

import (
	"fmt"
	"strings"
)

// Config is what strategies need besides the options. The zero value serves
// all strategies but priority.
type Config struct {
	// Seed decides what the strategy random draws.
	Seed uint64

	// Round numbers the draws of one run, see Chain.ForRound.
	Round uint64

	// Priorities serve the strategy priority.
	Priorities Priorities
}

// Default is the chain of Cluster Autoscaler's --expander flag.
const Default = "least-waste"

// Strategies lists all strategies in the order in which help texts name them.
func Strategies() []Strategy {
	return []Strategy{random, mostPods, leastWaste, leastNodes, price, priority}
}

// Names lists the names of all strategies.
func Names() []string {
	var names []string
	for _, d := range Strategies() {
		names = append(names, d.Name)
	}
	return names
}

func find(name string) (Strategy, error) {
	for _, d := range Strategies() {
		if d.Name == name {
			return d, nil
		}
	}
	return Strategy{}, fmt.Errorf("%w %q: choose from %s", ErrUnknownStrategy, name, strings.Join(Names(), ", "))
}
