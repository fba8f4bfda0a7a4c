package nodegroupset

import (
	"errors"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/cloudprovider"
)

func wantInvalid(t *testing.T, err error, path string) {
	t.Helper()
	var invalid *apportion.InvalidError
	if !errors.As(err, &invalid) || invalid.Path != path {
		t.Errorf("error %v, want an InvalidError at %q", err, path)
	}
}

func TestOptionsRefused(t *testing.T) {
	for path, o := range map[string]Options{
		"balancingIgnoreLabels[1]": {IgnoreLabels: []string{"a", ""}},
		"balancingLabels[0]":       {Labels: []string{" "}},
		"disabledPacks[1]":         {DisabledPacks: []string{"aws", "awz"}},
	} {
		_, err := NewIndex(o)
		wantInvalid(t, err, path)
	}
	_, err := NewIndex(Options{DisabledPacks: []string{"awz"}})
	if want := "basic, kops, kwok, aws, azure, gce, gardener, clusterapi"; !strings.Contains(err.Error(), want) {
		t.Errorf("%q does not list the known packs", err)
	}
}

func TestParseRatio(t *testing.T) {
	for in, want := range map[string]string{
		"0": "0", "1": "1", "0.05": "0.05", "0.050": "0.050", ".5": "0.5", "1.0": "1.0", "5e-2": "0.05", "1.5E-2": "0.015", "0.1e1": "1",
		"-0": "0", "0.000000000000000001": "0.000000000000000001", "1e-18": "0.000000000000000001",
		"0.50000000000000000000": "0.500000000000000000",
	} {
		got, err := ParseRatio(in)
		if err != nil || got.String() != want {
			t.Errorf("ParseRatio(%q) = %s, %v, want %s", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", ".", "x", "-0.1", "1.1", "1.0000000001", "2", "10", "1e1", "0x1", "+0.1", "1e", "1e9999", "nan", "0.1.2", "1_0",
		"0.0000000000000000001", "1e-19", "99999999999999999999", " 0.1", "-", "1.0000000000000000001",
	} {
		if got, err := ParseRatio(in); err == nil {
			t.Errorf("ParseRatio(%q) = %s, want an error", in, got)
		}
	}
}

func FuzzParseRatio(f *testing.F) {
	for _, seed := range []string{"0.05", "1", "5e-2", "-0", "1e-19", ".", "0.0000000000000000010"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		if len(in) > 100 {
			return
		}
		r, err := ParseRatio(in)
		if err != nil {
			wantInvalid(t, err, "")
			return
		}
		want, ok := new(big.Rat).SetString(in)
		got, _ := new(big.Rat).SetString(r.String())
		if !ok || got.Cmp(want) != 0 || got.Sign() < 0 || got.Cmp(big.NewRat(1, 1)) > 0 {
			t.Errorf("ParseRatio(%q) = %s", in, r)
		}
		if again, err := ParseRatio(r.String()); err != nil || again != r {
			t.Errorf("%s does not read back: %s, %v", r, again, err)
		}
	})
}

func TestGapText(t *testing.T) {
	for _, test := range []struct {
		a, b        int64
		limit, want string
		needed      string
	}{
		{1780, 1880, "0.05", "0.0532", "0.0532"},
		{100, 50, "0.05", "0.5000", "0.5"},
		{20, 19, "0.0499", "0.0500", "0.05"},
		{1_000_000, 949_999, "0.05", "0.050001", "0.0501"},
		{1_000_000_000_000, 949_999_999_999, "0.05", "0.050000000001", "0.0501"},
		{1, 0, "0.05", "1.0000", "1"},
		{100_000, 94_996, "0.05", "0.05004", "0.0501"},
		{100_000, 94_994, "0.05", "0.0501", "0.0501"},
		{1, -1, "1", "2.0000", ""},
	} {
		g := gapBetween(milliOf(test.a), milliOf(test.b))
		if got := g.text(*ratio(t, test.limit)); got != test.want {
			t.Errorf("%d and %d differ by %s, want %s", test.a, test.b, got, test.want)
		}
		needed, ok := g.needed()
		if ok != (test.needed != "") || ok && needed.String() != test.needed {
			t.Errorf("%d and %d need %s (%v), want %q", test.a, test.b, needed, ok, test.needed)
		}
		if ok && !within(milliOf(test.a), milliOf(test.b), needed) {
			t.Errorf("%s does not join %d and %d", needed, test.a, test.b)
		}
	}
}

func TestShippedPacksAreThoseOfTheDocuments(t *testing.T) {
	packs, err := ShippedPacks()
	if err != nil {
		t.Fatal(err)
	}
	got, clouds, aliases := map[string][]string{}, map[string][]string{}, map[string]string{}
	for _, pack := range packs.Packs {
		got[pack.Name] = pack.Labels
		if pack.Cloud != nil {
			clouds[pack.Name] = pack.Cloud.Labels
			if diff := cmp.Diff(oracleClouds[pack.Name].prefixes, pack.Cloud.Prefixes); diff != "" {
				t.Error(diff)
			}
			if !slices.Equal(pack.Cloud.Schemes, []string{pack.Name}) {
				t.Errorf("%s: schemes %v", pack.Name, pack.Cloud.Schemes)
			}
		}
	}
	for _, alias := range packs.Aliases {
		aliases[alias.Deprecated] = alias.Current
	}
	if diff := cmp.Diff(oraclePacks, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(oracleAliases, aliases); diff != "" {
		t.Error(diff)
	}
	if len(clouds) != len(oracleClouds) {
		t.Errorf("clouds %v", slices.Sorted(maps.Keys(clouds)))
	}
	for _, key := range []string{
		"karpenter.sh/capacity-type", "eks.amazonaws.com/capacityType", "cloud.google.com/gke-spot",
		"kubernetes.azure.com/scalesetpriority", "machine.openshift.io/interruptible-instance",
	} {
		if !slices.Contains(packs.Meaningful, key) {
			t.Errorf("%s must never be in a pack", key)
		}
	}
}

// How capacity is bought decides what it costs and how soon it is gone, on every cloud.
func TestNoPackDropsHowCapacityIsBought(t *testing.T) {
	packs, err := ShippedPacks()
	if err != nil {
		t.Fatal(err)
	}
	bought := []string{
		"lifecycle", "node.kubernetes.io/lifecycle", "node-lifecycle", "eks.amazonaws.com/capacityType", "karpenter.sh/capacity-type",
		"alpha.eksctl.io/spot", "cloud.google.com/gke-spot", "cloud.google.com/gke-preemptible", "cloud.google.com/gke-provisioning",
		"kubernetes.azure.com/scalesetpriority", "scalesetpriority", "machine.openshift.io/interruptible-instance",
		"cluster.x-k8s.io/interruptible",
		"oci.oraclecloud.com/oke-is-preemptible", "node.alibabacloud.com/spot-strategy", "node.alibabacloud.com/instance-charge-type",
		"spotinst.io/node-lifecycle", "scheduling.cast.ai/spot", "scheduling.cast.ai/spot-fallback", "node-role.kubernetes.io/spot-worker",
		"example.com/on-demand", "spot", "preemptible", "priority",
	}
	clouds := []string{"", "aws:///a/i-1", "azure:///a", "gce://p/z/n", "oci://ocid", "alicloud://r.i", "openstack:///x"}
	shown := []string{"", "topology.k8s.aws/zone-id", "kubernetes.azure.com/role", "cloud.google.com/machine-family"}
	for _, key := range bought {
		if !packs.HasMeaning(key) {
			t.Errorf("explain may propose to ignore %s", key)
		}
		for _, id := range clouds {
			for _, prefixed := range shown {
				var changes []change
				if prefixed != "" {
					changes = append(changes, setLabels(prefixed, "x"))
				}
				spot := template(append(slices.Clone(changes), providerID(id), setLabels(key, "spot"))...)
				regular := template(append(slices.Clone(changes), providerID(id), setLabels(key, "regular"))...)
				templates := map[string]cloudprovider.Template{"spot": spot, "regular": regular}
				if len(indexOf(t, Options{}, templates).Similar("spot")) > 0 {
					t.Errorf("%s makes no difference with the providerID %q and the label %q", key, id, prefixed)
				}
				if len(indexOf(t, Options{IgnoreLabels: []string{key}}, templates).Similar("spot")) == 0 {
					t.Errorf("%s makes a difference though it is to be ignored", key)
				}
			}
		}
	}
}

func TestParseLabelPacksRefuses(t *testing.T) {
	for name, data := range map[string]string{
		"unknown field":    "packs: [{name: a, labels: [x], keys: [y]}]",
		"empty name":       "packs: [{labels: [x]}]",
		"name twice":       "packs: [{name: a, labels: [x]}, {name: a, labels: [y]}]",
		"key twice":        "packs: [{name: a, labels: [x]}, {name: b, labels: [x]}]",
		"empty key":        "packs: [{name: a, labels: ['']}]",
		"meaningful key":   "packs: [{name: a, labels: [x]}]\nmeaningful: [x]",
		"meaningful twice": "meaningful: [x, x]",
		"meaningful word":  "packs: [{name: a, labels: [x.io/my-Spot_pool]}]\nmeaningfulWords: [spotpool]",
		"word of a cloud": "packs: [{name: a, labels: [x], cloud: {schemes: [s], prefixes: [p], labels: " +
			"[lifecycle]}}]\nmeaningfulWords: [lifecycle]",
		"empty word":        "meaningfulWords: ['']",
		"cloud key twice":   "packs: [{name: a, labels: [x], cloud: {schemes: [s], prefixes: [p], labels: [x]}}]",
		"empty prefix":      "packs: [{name: a, labels: [x], cloud: {schemes: [s], prefixes: [''], labels: [y]}}]",
		"empty scheme":      "packs: [{name: a, labels: [x], cloud: {schemes: [''], prefixes: [p], labels: [y]}}]",
		"chain of aliases":  "aliases: [{deprecated: a, current: b}, {deprecated: b, current: c}]",
		"two for one":       "aliases: [{deprecated: a, current: c}, {deprecated: b, current: c}]",
		"alias of nothing":  "aliases: [{deprecated: a}]",
		"not a document":    "- x",
		"not YAML":          "packs: [",
		"repeated YAML key": "packs: []\npacks: []",
	} {
		if packs, err := ParseLabelPacks([]byte(data)); err == nil {
			t.Errorf("%s: read as %+v", name, packs)
		}
	}
}

func FuzzParseLabelPacks(f *testing.F) {
	f.Add("packs:\n- name: a\n  labels: [x]\n  cloud: {schemes: [s], prefixes: [p/], labels: [y]}\naliases: [{deprecated: d, current: c}]\n")
	f.Add("packs: [{name: a, labels: [x, x]}]")
	f.Add("meaningful: [a]\npacks: null")
	f.Add("meaningfulWords: [x]\npacks: [{name: a, labels: [y]}]")
	f.Fuzz(func(t *testing.T, in string) {
		if len(in) > 2000 {
			return
		}
		packs, err := ParseLabelPacks([]byte(in))
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, pack := range packs.Packs {
			for _, key := range pack.Labels {
				if key == "" || seen[key] {
					t.Errorf("key %q is empty or listed twice", key)
				}
				if packs.HasMeaning(key) {
					t.Errorf("key %q is in a pack and tells what nodes are for", key)
				}
				seen[key] = true
			}
		}
		newLabelRule(packs, Options{}).compared(&facts{labels: []label{{"d", "1"}, {"x", "1"}, {"y", "2"}}})
	})
}
