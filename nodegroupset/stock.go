package nodegroupset

import (
	"iter"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// stockIgnored are the labels Cluster Autoscaler ignores without a flag.
var stockIgnored = []string{
	"kubernetes.io/hostname",
	"failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
	"topology.kubernetes.io/zone", "topology.kubernetes.io/region",
	"beta.kubernetes.io/fluentd-ds-ready", "kops.k8s.io/instancegroup",
}

// stockIgnoredBy are those that its builds for some clouds ignore as well, by the scheme of the
// providerIDs there.
var stockIgnoredBy = map[string][]string{
	"aws": {
		"alpha.eksctl.io/instance-id", "alpha.eksctl.io/nodegroup-name", "eks.amazonaws.com/nodegroup", "k8s.amazonaws.com/eniConfig",
		"lifecycle", "topology.ebs.csi.aws.com/zone", "topology.k8s.aws/zone-id",
	},
	"azure": {
		"agentpool", "kubernetes.azure.com/agentpool", "topology.disk.csi.azure.com/zone", "aksEngineVersion", "creationSource", "poolName",
		"resourceNameSuffix", "kubernetes.azure.com/node-image-version", "kubernetes.azure.com/consolidated-additional-properties",
	},
	"gce": {"topology.gke.io/zone"},
}

// stockLate are labels of stockIgnoredBy that old releases do not ignore: those from a minor release on do, and before it
// some from a patch on.
var stockLate = []struct {
	cloud   string
	labels  []string
	from    int
	patches map[int]int
}{
	{"aws", []string{"topology.k8s.aws/zone-id"}, 35, map[int]int{32: 6, 33: 4, 34: 3}},
	{"azure", []string{
		"aksEngineVersion", "creationSource", "poolName", "resourceNameSuffix", "kubernetes.azure.com/node-image-version",
		"kubernetes.azure.com/consolidated-additional-properties",
	}, 31, map[int]int{30: 3}},
}

// StockLate returns the labels without a meaning that Cluster Autoscaler 1.minor.patch compares on a cloud and a later release
// ignores, and the first patch of this minor release that does; 0 if none does. A negative patch is the last one.
func StockLate(cloud string, minor, patch int) (labels []string, fixed int) {
	for _, late := range stockLate {
		first, some := late.patches[minor]
		mended := minor >= late.from || some && (patch < 0 || patch >= first)
		if late.cloud == cloud && !mended {
			return late.labels, first
		}
	}
	return nil, 0
}

// NewStockIndex returns an Index that compares groups as Cluster Autoscaler does without evenkeel, in
// its build for a cloud: "aws", "azure" or "gce", as providerIDs begin there, and anything else for the
// others. Of the options IgnoreLabels, Labels and the ratios count. That two groups of one Azure node
// pool are similar whatever else differs is left out: a pool is one group. The labels of late are compared
// as well; StockLate says which these are in an old release.
func NewStockIndex(cloud string, o Options, late ...string) (*Index, error) {
	if len(o.Labels) > 0 {
		return NewIndex(o)
	}
	if _, err := NewIndex(o); err != nil {
		return nil, err
	}
	c := changes{ignore: o.IgnoreLabels}
	for kind, given := range o.givenRatios() {
		c.ratios[kind] = *given
	}
	x := newIndex(newStockRule(cloud, c, late...))
	x.options = Options{IgnoreLabels: slices.Clone(o.IgnoreLabels)}
	return x, nil
}

// StockCloud is the cloud whose build of Cluster Autoscaler runs nodes, for NewStockIndex: "clusterapi" if a node is a
// machine of the Cluster API or of OpenShift, which have one build for all clouds; otherwise the scheme of the first
// providerID, empty without any.
func StockCloud(nodes iter.Seq[*v1.Node]) (cloud string) {
	for n := range nodes {
		if n.Annotations[ownerOfMachine] != "" || n.Annotations[openShiftMachine] != "" {
			return "clusterapi"
		}
		if scheme, _, found := strings.Cut(n.Spec.ProviderID, "://"); found && cloud == "" {
			cloud = scheme
		}
	}
	return cloud
}

// newStockRule is the comparison of Cluster Autoscaler itself with its generic
// comparator, up to 1.36, with the given flags. It is here to say which flags an
// autoscaler without evenkeel would need, not to decide anything.
//
// Against the product's rule: a resource listed on one side only makes a
// difference, a negative free amount always does, free is compared for resources
// some pod requests, labels are taken as they are, and taints are not looked at.
func newStockRule(cloud string, c changes, late ...string) *rule {
	ignored := map[string]bool{}
	for _, key := range slices.Concat(stockIgnored, stockIgnoredBy[cloud]) {
		ignored[key] = !slices.Contains(late, key)
	}
	for _, key := range c.ignore {
		ignored[key] = true
	}
	r := &rule{kind: stockRule, limits: defaultRatios}
	for kind, needed := range c.ratios {
		if needed != nil {
			r.limits[kind] = *needed
		}
	}
	r.traits = func(f *facts) []trait {
		traits := make([]trait, 0, len(f.measures)+len(f.labels))
		for _, t := range appendMeasures(nil, f) {
			t.listed = t.kind != free || !alwaysCompared(t.key)
			t.never = t.measure.amount.hi < 0
			if t.measure.requested || !t.listed || t.kind != free {
				traits = append(traits, t)
			}
		}
		labels := slices.DeleteFunc(slices.Clone(f.labels), func(l label) bool { return ignored[l.key] })
		return appendLabels(traits, labels)
	}
	return r
}

// alwaysCompared reports whether the autoscaler compares the free amount of a
// resource whether or not a pod requests it; it is zero there where it is not
// listed.
func alwaysCompared(resource string) bool {
	switch v1.ResourceName(resource) {
	case v1.ResourceCPU, v1.ResourceMemory, v1.ResourcePods, v1.ResourceEphemeralStorage:
		return true
	}
	return false
}

// stockRatio raises a ratio, a ten-thousandth at a time, until the autoscaler's
// floating-point comparison lets the amounts pass as well.
func stockRatio(r Ratio, left, right amount) (Ratio, bool) {
	x, y := left.float(), right.float()
	larger, smaller := math.Max(x, y), math.Min(x, y)
	for r = r.scale(4); r.num <= pow10[r.digits]; r.num++ {
		if value, _ := r.rat().Float64(); larger-smaller <= larger*value {
			return r.short(), true
		}
	}
	return Ratio{}, false
}

func (a amount) float() float64 {
	value, _ := a.abs().big().Float64()
	if a.hi < 0 {
		return -value
	}
	return value
}

// scale writes a ratio with at least the given number of digits.
func (r Ratio) scale(digits int) Ratio {
	for r.digits < digits {
		r.num, r.digits = r.num*10, r.digits+1
	}
	return r
}
