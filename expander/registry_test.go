package expander

import (
	"slices"
	"strings"
	"testing"
)

// Documentation and validation know the same strategies.
func TestEverythingDerivesFromTheRegistry(t *testing.T) {
	config := Config{Priorities: prioritiesOf(t, "1: [a]")}
	options := []Option{option("b", 1, 1, 1, 1), option("a", 2, 2, 2, 2)}
	for _, d := range Strategies() {
		if strings.ContainsAny(d.Help+d.Doc, "|\n") || strings.HasSuffix(d.Help, ".") || !strings.HasSuffix(d.Doc, ".") {
			t.Errorf("%s: one line of help without a full stop, whole sentences of documentation, no table bars", d.Name)
		}
		kept := 0
		for _, v := range d.Filter(config, options) {
			if v.Kept {
				kept++
			}
			if v.Figure == "" {
				t.Errorf("%s measures nothing", d.Name)
			}
		}
		if kept == 0 || d.Single && kept != 1 {
			t.Errorf("%s keeps %d", d.Name, kept)
		}
		if got := d.Filter(config, nil); len(got) != 0 {
			t.Errorf("%s of none: %v", d.Name, got)
		}
	}
	if !slices.Contains(Names(), Default) {
		t.Errorf("the default %s is no strategy", Default)
	}
}
