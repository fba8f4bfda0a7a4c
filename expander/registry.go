package expander

import (
	"fmt"
	"strings"
)

// Definition describes one strategy. Help texts, validation and documentation
// are all made from the definitions.
type Definition struct {
	Name   string                         // as in --expander
	Help   string                         // one line, without a full stop
	Doc    string                         // what it does to the last case, in markdown
	New    func(Config) (Strategy, error) // fails where the Config lacks what the strategy needs
	Single bool                           // always leaves one option, so nothing may stand behind it
}

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

// Definitions lists all strategies in the order in which help texts name them.
func Definitions() []Definition {
	return []Definition{
		randomDefinition,
		mostPodsDefinition,
		leastWasteDefinition,
		leastNodesDefinition,
		priceDefinition,
		priorityDefinition,
	}
}

// Names lists the names of all strategies.
func Names() []string {
	var names []string
	for _, d := range Definitions() {
		names = append(names, d.Name)
	}
	return names
}

// DocsTable is a markdown table of all strategies.
func DocsTable() string {
	var b strings.Builder
	b.WriteString("| Expander | Keeps | In detail |\n|---|---|---|\n")
	for _, d := range Definitions() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", d.Name, d.Help, d.Doc)
	}
	return b.String()
}

func find(name string) (Definition, error) {
	for _, d := range Definitions() {
		if d.Name == name {
			return d, nil
		}
	}
	return Definition{}, fmt.Errorf("%w %q: choose from %s", ErrUnknownStrategy, name, strings.Join(Names(), ", "))
}
