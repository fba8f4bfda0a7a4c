package simulate

import "testing"

// FuzzStatus wants bounds that a group can have from whatever stands in the ConfigMap.
func FuzzStatus(f *testing.F) {
	f.Add("nodeGroups: [{name: a, health: {minSize: 1, maxSize: 2}}]")
	f.Add("nodeGroups: [{name: a, health: {minSize: 3, maxSize: -2}}]")
	f.Add("Name: a\n minSize=1, maxSize=99999999999")
	f.Fuzz(func(t *testing.T, status string) {
		for name, b := range parseStatus(status) {
			if name == "" || b.Min < 0 || b.Max < b.Min {
				t.Errorf("group %q: %v", name, b)
			}
		}
	})
}
