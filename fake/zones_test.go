package fake_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
)

// overZones is a group over the zones a, b and c.
func overZones(d fake.Distribution, size int) fake.Group {
	return fake.Group{ID: "g", MaxSize: 20, Size: size, Template: template("a"), Zones: []string{"a", "b", "c"}, Distribution: d}
}

// zonesNow are the numbers of nodes in a, b and c, and of orders that wait.
func zonesNow(t *testing.T, cloud *fake.Cloud) string {
	t.Helper()
	nodes := map[string]int{}
	for _, n := range cloud.RegisteredNodes() {
		nodes[n.Labels[v1.LabelTopologyZone]]++
	}
	waiting := cloud.Target("g") - nodes["a"] - nodes["b"] - nodes["c"]
	return strings.TrimSuffix(fmt.Sprintf("%d/%d/%d +%d", nodes["a"], nodes["b"], nodes["c"], waiting), " +0")
}

func TestAGroupOverZonesChoosesTheZoneOfEachNode(t *testing.T) {
	outage := fake.Config{Outages: []v1alpha1.Outage{{Zones: []string{"b"}, FaultWindow: during(0, time.Minute)}}}
	refuse := fake.Config{StockOuts: []v1alpha1.StockOut{{Zones: []string{"b"}, FaultWindow: during(0, time.Minute)}}}
	for name, c := range map[string]struct {
		distribution fake.Distribution
		config       fake.Config
		size, more   int
		now, later   string
	}{
		"the zone with the fewest":     {"", fake.Config{}, 4, 3, "3/2/2", "3/2/2"},
		"the fewest of those up":       {fake.Balanced, outage, 3, 4, "3/1/3", "3/1/3"},
		"the fewest of those in stock": {fake.Balanced, refuse, 3, 4, "3/1/3", "3/1/3"},
		"even waits":                   {fake.Even, outage, 3, 4, "2/1/2 +2", "3/2/2"},
		"even waits for stock":         {fake.Even, refuse, 3, 4, "2/1/2 +2", "3/2/2"},
		"any takes the first":          {fake.Any, fake.Config{}, 0, 3, "3/0/0", "3/0/0"},
		"any takes the first in stock": {fake.Any, fake.Config{StockOuts: []v1alpha1.StockOut{{Zones: []string{"a"}, Left: 1}}}, 0, 3, "1/2/0",
			"1/2/0"},
		"a stock-out of the whole": {fake.Even,
			fake.Config{StockOuts: []v1alpha1.StockOut{{Groups: []string{"g"}, Left: 4, Mode: v1alpha1.StockOutSilent,
				FaultWindow: during(0, time.Minute)}}}, 3, 4, "2/1/1 +3", "3/2/2"},
		"nodes vanish, others come": {fake.Balanced,
			fake.Config{Outages: []v1alpha1.Outage{{Zones: []string{"a"}, Mode: v1alpha1.OutageVanish, FaultWindow: during(time.Second, 0)}}}, 6, 1,
			"3/2/2", "0/4/3"},
		"nodes vanish and are to return": {fake.Even,
			fake.Config{Outages: []v1alpha1.Outage{{Zones: []string{"a"}, Mode: v1alpha1.OutageVanish, FaultWindow: during(time.Second, 0)}}}, 6, 1,
			"3/2/2", "0/2/2 +3"},
	} {
		t.Run(name, func(t *testing.T) {
			c.config.Groups = []fake.Group{overZones(c.distribution, c.size)}
			cloud, clock := start(t, c.config)
			if err := cloud.IncreaseSize(context.Background(), "g", c.more); err != nil {
				t.Fatal(err)
			}
			if got := zonesNow(t, cloud); got != c.now {
				t.Errorf("nodes %s, want %s", got, c.now)
			}
			clock.Step(2 * time.Minute)
			if got := zonesNow(t, cloud); got != c.later {
				t.Errorf("later %s, want %s", got, c.later)
			}
		})
	}
}

func TestAGroupOverZonesRefusesWhatNoZoneHas(t *testing.T) {
	cloud, _ := start(t, fake.Config{Groups: []fake.Group{overZones("", 3)},
		StockOuts: []v1alpha1.StockOut{{Zones: []string{"a", "b"}, Left: 4}},
		Outages:   []v1alpha1.Outage{{Zones: []string{"c"}}}})
	if err := cloud.IncreaseSize(context.Background(), "g", 3); !errors.Is(err, cloudprovider.ErrOutOfResources) {
		t.Errorf("three more of two: error %v", err)
	}
	if err := cloud.IncreaseSize(context.Background(), "g", 2); err != nil {
		t.Error(err)
	}
	if got := zonesNow(t, cloud); got != "2/2/1" {
		t.Errorf("nodes %s", got)
	}
}

func TestInZoneChangesTheLabelsOfTheZone(t *testing.T) {
	node := template("a").Node
	node.Labels["topology.ebs.csi.aws.com/zone"], node.Labels["team"] = "a", "a"
	got := fake.InZone(node, "b").Labels
	if got["topology.ebs.csi.aws.com/zone"] != "b" || got[v1.LabelTopologyZone] != "b" || got["team"] != "a" ||
		node.Labels[v1.LabelTopologyZone] != "a" {
		t.Errorf("labels %v of %v", got, node.Labels)
	}
}
