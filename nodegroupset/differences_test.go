package nodegroupset

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

func TestDifferencesAreComplete(t *testing.T) {
	a := template(setCapacity("memory", "1000", "hugepages-1Gi", "0"), setAllocatable("cpu", "1930m"), requesting("cpu", "50m"),
		setTaints(v1.Taint{Key: "dedicated", Value: "gpu", Effect: v1.TaintEffectNoSchedule},
			v1.Taint{Key: "same", Effect: v1.TaintEffectNoExecute}, v1.Taint{Key: "value", Value: "1", Effect: v1.TaintEffectNoSchedule}),
		setLabels("pool", "blue", "example.com/a", ""))
	b := template(setCapacity("cpu", "8", "memory", "984", "hugepages-1Gi", "1Gi"), setAllocatable("cpu", "1930m"),
		requesting("cpu", "150m", "ephemeral-storage", "1Gi"),
		setTaints(v1.Taint{Key: "same", Effect: v1.TaintEffectNoExecute}, v1.Taint{Key: "value", Effect: v1.TaintEffectNoSchedule}),
		func(t *cloudprovider.Template) { delete(t.Node.Labels, "pool") })
	x := indexOf(t, Options{}, map[string]cloudprovider.Template{"a": a, "b": b})
	want := []Difference{
		{Field: "capacity.cpu", Left: new("4"), Right: new("8"), Limit: "equal"},
		{Field: "capacity.hugepages-1Gi", Left: new("0"), Right: new("1Gi"), Limit: "equal"},
		{Field: "capacity.memory", Left: new("1k"), Right: new("984"), Ratio: "0.0160", Limit: "0.015"},
		{Field: "free.cpu", Left: new("1880m"), Right: new("1780m"), Ratio: "0.0532", Limit: "0.05"},
		{Field: "free.ephemeral-storage", Right: new("-1Gi"), Ratio: "1.0000", Limit: "0.05"},
		{Field: "labels[example.com/a]", Left: new(""), Limit: "equal"},
		{Field: "labels[pool]", Left: new("blue"), Limit: "equal"},
		{Field: "taints[dedicated:NoSchedule]", Left: new("gpu"), Limit: "equal"},
		{Field: "taints[value:NoSchedule]", Left: new("1"), Right: new(""), Limit: "equal"},
	}
	if diff := cmp.Diff(want, x.Differences("a", "b")); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
	for i, d := range x.Differences("b", "a") {
		w := want[i]
		w.Left, w.Right = w.Right, w.Left
		if diff := cmp.Diff(w, d); diff != "" {
			t.Errorf("the other way round (-want +got):\n%s", diff)
		}
	}
	if x.Differences("a", "nobody") != nil || x.Differences("a", "a") != nil {
		t.Error("there are differences to nobody or to itself")
	}
}

func TestDifferencesOfBalancingLabels(t *testing.T) {
	x := indexOf(t, Options{Labels: []string{"zone", "pool", "team"}}, map[string]cloudprovider.Template{
		"a": template(setCapacity("cpu", "8")), "b": template(setLabels("pool", "red", "team", "x")),
	})
	want := []Difference{
		{Field: "labels[pool]", Left: new("blue"), Right: new("red"), Limit: "equal"},
		{Field: "labels[team]", Right: new("x"), Limit: "equal"},
		{Field: "labels[zone]", Limit: "equal"},
	}
	if diff := cmp.Diff(want, x.Differences("a", "b")); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
}

func TestDifferenceJSON(t *testing.T) {
	for want, d := range map[string]Difference{
		`{"field":"labels[pool]","left":"","limit":"equal"}`: {Field: "labels[pool]", Left: new(""), Limit: "equal"},
		`{"field":"free.cpu","left":"1","right":"2","ratio":"0.5000","limit":"0.05"}`: {
			Field: "free.cpu", Left: new("1"), Right: new("2"), Ratio: "0.5000", Limit: "0.05",
		},
	} {
		got, err := json.Marshal(d)
		if err != nil || string(got) != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
}

func TestPairs(t *testing.T) {
	x := indexOf(t, Options{}, map[string]cloudprovider.Template{
		"a": template(), "b": template(), "c": template(setLabels("pool", "red")),
		"d": template(setLabels("pool", "green", "x", "1", "y", "1", "z", "1")),
	})
	for limit, want := range map[int]int{-1: 3, 0: 0, 1: 1, 3: 1, 4: 3} {
		if got := x.Pairs(limit); len(got) != want {
			t.Errorf("Pairs(%d) = %+v, want %d", limit, got, want)
		}
	}
	if got := x.Pairs(1)[0]; got.Left != "a" || got.Right != "c" {
		t.Errorf("the pair is %s and %s, want a and c", got.Left, got.Right)
	}
}

func TestSetsOfARealFleet(t *testing.T) {
	zones := func(kind string) []string { return []string{kind + "-a", kind + "-b", kind + "-c"} }
	templates := indexOf(t, Options{}, readTemplates(t, "node-group-templates.json"))
	want := [][]string{zones("c5-2xlarge"), zones("m5-large"), zones("m5-xlarge"), zones("r5-large")}
	if diff := cmp.Diff(want, templates.Sets()); diff != "" {
		t.Errorf("sets of the node group templates (-want +got):\n%s", diff)
	}

	snapshot := readTemplates(t, "snapshot-templates.json")
	x := indexOf(t, Options{}, snapshot)
	want = [][]string{zones("c5-2xlarge"), {"m5-large-a"}, {"m5-large-b", "m5-large-c"}, zones("m5-xlarge"), zones("r5-large")}
	if diff := cmp.Diff(want, x.Sets()); diff != "" {
		t.Errorf("sets of the snapshot (-want +got):\n%s", diff)
	}
	why := []Difference{{Field: "free.cpu", Left: new("1780m"), Right: new("1880m"), Ratio: "0.0532", Limit: "0.05"}}
	if diff := cmp.Diff(why, x.Differences("m5-large-a", "m5-large-b")); diff != "" {
		t.Errorf("why m5-large-a is alone (-want +got):\n%s", diff)
	}
	for limit, sets := range map[string]int{"0.0531": 5, "0.0532": 4} {
		if got := indexOf(t, Options{MaxFreeDifferenceRatio: ratio(t, limit)}, snapshot).Sets(); len(got) != sets {
			t.Errorf("a free ratio of %s makes the sets %v, want %d", limit, got, sets)
		}
	}
}
