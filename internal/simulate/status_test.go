package simulate

import (
	"testing"

	"github.com/evenkeel/evenkeel/internal/autoscalerstatus"
)

// FuzzStatus wants bounds that a group can have from whatever stands in the ConfigMap.
func FuzzStatus(f *testing.F) {
	f.Add("nodeGroups: [{name: a, health: {minSize: 1, maxSize: 2}}]")
	f.Add("nodeGroups: [{name: a, health: {minSize: 3, maxSize: -2}}]")
	f.Add("Cluster-autoscaler status at 2024-02-03 10:20:41 +0000 UTC:\nCluster-wide:\nNodeGroups:\n  Name: a\n  Health: " +
		"Healthy (minSize=1, maxSize=99999999999)")
	f.Fuzz(func(t *testing.T, status string) {
		s, err := autoscalerstatus.Parse(status)
		if err != nil {
			return
		}
		for name, b := range boundsIn(s) {
			if name == "" || b.Min < 0 || b.Max < b.Min {
				t.Errorf("group %q: %v", name, b)
			}
		}
	})
}
