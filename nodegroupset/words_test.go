package nodegroupset

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

func TestDifferencesInWords(t *testing.T) {
	gpu := v1.Taint{Key: "dedicated", Value: "gpu", Effect: v1.TaintEffectNoSchedule}
	for want, c := range map[string]struct{ a, b []change }{
		"": {},
		"differs by label team-pool: a against b": {[]change{setLabels("team-pool", "a")},
			[]change{setLabels("team-pool", "b")}},
		`differs by label capacity.io/x: none against ""`:                           {nil, []change{setLabels("capacity.io/x", "")}},
		"differs by taint dedicated:NoSchedule: gpu against none":                   {[]change{setTaints(gpu)}, nil},
		"differs by capacity cpu: 4 against 8":                                      {nil, []change{setCapacity("cpu", "8")}},
		"differs by capacity memory: 16Gi against 17Gi (ratio 0.0588, limit 0.015)": {nil, []change{setCapacity("memory", "17Gi")}},
		"differs by free cpu: 3920m against 3420m (ratio 0.1276, limit 0.05)":       {nil, []change{requesting("cpu", "500m")}},
		"differs by label x: 1 against none and label y: 2 against none":            {[]change{setLabels("x", "1", "y", "2")}, nil},
		"differs by capacity cpu: 4 against 8 and 2 more": {[]change{setLabels("x", "1", "y", "2")},
			[]change{setCapacity("cpu", "8")}},
		"differs by capacity nvidia.com/gpu: 1 against none": {[]change{setCapacity("nvidia.com/gpu", "1")}, nil},
	} {
		x := indexOf(t, Options{}, map[string]cloudprovider.Template{"a": template(c.a...), "b": template(c.b...)})
		if got := DiffersBy(x.Differences("a", "b")); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
