package nodegroupset

import (
	"iter"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// stockRule is the comparison of Cluster Autoscaler itself with its generic
// comparator, up to 1.36, with the given flags. It is here to say which flags an
// autoscaler without evenkeel would need, not to decide anything.
//
// Against the product's rule: a resource listed on one side only makes a
// difference, a negative free amount always does, free is compared for resources
// some pod requests, labels are taken as they are, and taints are not looked at.
type stockRule struct {
	ignored map[string]bool
	limits  ratios
}

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

// NewStockIndex returns an Index that compares groups as Cluster Autoscaler does without evenkeel, in
// its build for a cloud: "aws", "azure" or "gce", as providerIDs begin there, and anything else for the
// others. Of the options IgnoreLabels, Labels and the ratios count. That two groups of one Azure node
// pool are similar whatever else differs is left out: a pool is one group.
func NewStockIndex(cloud string, o Options) (*Index, error) {
	if len(o.Labels) > 0 {
		return NewIndex(o)
	}
	if _, err := NewIndex(o); err != nil {
		return nil, err
	}
	r := newStockRule(cloud, changes{ignore: o.IgnoreLabels})
	r.limits = o.ratios()
	x := newIndex(r)
	x.options = Options{IgnoreLabels: slices.Clone(o.IgnoreLabels)}
	return x, nil
}

// StockCloud is the cloud whose build of Cluster Autoscaler runs nodes, for NewStockIndex: the scheme of
// the first providerID, empty without any.
func StockCloud(nodes iter.Seq[*v1.Node]) string {
	for n := range nodes {
		if scheme, _, found := strings.Cut(n.Spec.ProviderID, "://"); found {
			return scheme
		}
	}
	return ""
}

func newStockRule(cloud string, c changes) *stockRule {
	r := &stockRule{ignored: map[string]bool{}, limits: Options{}.ratios()}
	for _, key := range slices.Concat(stockIgnored, stockIgnoredBy[cloud], c.ignore) {
		r.ignored[key] = true
	}
	for kind, needed := range c.ratios {
		if needed != nil {
			r.limits[kind] = *needed
		}
	}
	return r
}

func (r *stockRule) ratios() ratios { return r.limits }

func (r *stockRule) print(f *facts, p *printer) fingerprint {
	var out fingerprint
	for _, l := range f.labels {
		if !r.ignored[l.key] {
			out.labels = append(out.labels, l)
		}
	}
	p.buffer = appendLabels(p.buffer[:0], out.labels)
	for i := range f.measures {
		m := &f.measures[i]
		switch {
		case !stockCompares(m):
			continue
		case m.amount.hi < 0:
			out.alone = true
		case m.exactly():
			p.buffer = appendMeasure(p.buffer, m)
			continue
		}
		if m.kind != free || !alwaysCompared(m.resource) {
			p.buffer = append(appendText(p.buffer, m.resource), byte(m.kind)) // that it is listed
		}
		out.numbers = p.number(out.numbers, m)
	}
	sortNumbers(out.numbers)
	out.exact = p.buffer
	return out
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

func stockCompares(m *measure) bool {
	return m.kind != free || m.requested || alwaysCompared(m.resource)
}

func (r *stockRule) mismatches(a, b *entry) iter.Seq[mismatch] {
	return func(yield func(mismatch) bool) {
		left, right := stockMeasures(a.facts), stockMeasures(b.facts)
		for left, right := range merge(left, right, compareMeasures) {
			if !r.agree(left, right) && !yield(measureMismatch{left, right, r.limits[orOther(left, right).kind]}) {
				return
			}
		}
		yieldLabels(a.labels, b.labels, yield)
	}
}

func stockMeasures(f *facts) []measure {
	var out []measure
	for _, m := range f.measures {
		if stockCompares(&m) {
			out = append(out, m)
		}
	}
	return out
}

func (r *stockRule) agree(left, right *measure) bool {
	if left == nil || right == nil {
		other := orOther(left, right)
		return other.kind == free && alwaysCompared(other.resource) && other.amount == amount{}
	}
	if left.amount.hi < 0 || right.amount.hi < 0 {
		return false
	}
	if left.exactly() {
		return left.amount == right.amount && left.added == right.added
	}
	return within(left.amount, right.amount, r.limits[left.kind])
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
