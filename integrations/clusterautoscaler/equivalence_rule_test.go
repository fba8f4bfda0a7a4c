package clusterautoscaler_test

import (
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"
	"sigs.k8s.io/cluster-autoscaler/pkg/config"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/framework"

	engine "github.com/evenkeel/evenkeel/nodegroupset"
)

// departure is a way in which evenkeel's comparison departs from upstream's. Each can be taken back
// alone, so that a rule with none is upstream's and one with all is evenkeel's.
type departure uint16

const (
	comparesTaints departure = 1 << iota
	labelPacks
	labelAliases
	noShortcut
	missingIsZero
	everyFree
	negativeFree
	exactRatios
	exactRequests
	requestsOfSpec
	refusesUnusable
	endOfDepartures

	noDepartures  departure = 0
	allDepartures           = endOfDepartures - 1
)

var departureNames = []string{
	"taints are compared",
	"label packs",
	"deprecated labels count as their current names",
	"no shortcut for an agent pool",
	"a resource missing on one side counts as zero",
	"free is compared for resources no pod requests",
	"free below zero",
	"exact ratios instead of floating point",
	"requests not rounded up to whole units",
	"requests of the spec, not of a resize in the status",
	"a template without capacity or with a negative amount is similar to none",
}

func (d departure) has(o departure) bool { return d&o != 0 }

func (d departure) String() string {
	var names []string
	for i, name := range departureNames {
		if d.has(1 << i) {
			names = append(names, name)
		}
	}
	return strings.Join(names, " + ")
}

// smallestDepartures returns the fewest departures that have to be taken back for a result.
func smallestDepartures(reached func(takenBack departure) bool) departure {
	for size := 1; size <= len(departureNames); size++ {
		for d := departure(1); d <= allDepartures; d++ {
			if popCount(d) == size && reached(d) {
				return d
			}
		}
	}
	return noDepartures
}

func popCount(d departure) (n int) {
	for ; d != 0; d &= d - 1 {
		n++
	}
	return n
}

// similarityOptions are what users set and, for upstream, the comparator of their cloud.
type similarityOptions struct {
	comparator string // generic, aws, azure or gce
	ignore     []string
	labels     []string // decide alone
	ratios     config.NodeGroupDifferenceRatios
}

// ruleBook is the comparison of two templates, pairwise and without any cleverness, with departures
// that can be taken back. It shares no code with either side but the sum of a pod's requests and
// the numbers.
type ruleBook struct {
	options similarityOptions
	ignored map[string]bool // upstream's list for the comparator and the user's
	packs   engine.LabelPacks
	ratios  map[string]*big.Rat // exactly what the user wrote
}

func newRuleBook(o similarityOptions) (*ruleBook, error) {
	packs, err := engine.ShippedPacks()
	if err != nil {
		return nil, err
	}
	r := &ruleBook{options: o, ignored: map[string]bool{}, packs: packs, ratios: map[string]*big.Rat{}}
	for _, key := range slices.Concat(upstreamIgnores["generic"], upstreamIgnores[o.comparator], o.ignore) {
		r.ignored[key] = true
	}
	for _, ratio := range []float64{
		o.ratios.MaxCapacityMemoryDifferenceRatio, o.ratios.MaxAllocatableDifferenceRatio, o.ratios.MaxFreeDifferenceRatio,
	} {
		text := ratioText(ratio)
		r.ratios[text], _ = new(big.Rat).SetString(text)
	}
	return r, nil
}

// ratioText is the decimal a user wrote for a flag.
func ratioText(ratio float64) string { return strconv.FormatFloat(ratio, 'f', -1, 64) }

// upstreamIgnores are the labels upstream's comparators ignore by themselves.
var upstreamIgnores = map[string][]string{
	"generic": {
		"kubernetes.io/hostname", "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
		"topology.kubernetes.io/zone", "topology.kubernetes.io/region", "beta.kubernetes.io/fluentd-ds-ready", "kops.k8s.io/instancegroup",
	},
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

// similar judges two templates by the rule with some departures.
func (r *ruleBook) similar(a, b *framework.NodeInfo, d departure) bool {
	if len(r.options.labels) > 0 {
		return r.chosenLabelsEqual(a.Node(), b.Node())
	}
	if r.options.comparator == "azure" && !d.has(noShortcut) && sameAgentPool(a.Node(), b.Node()) {
		return true
	}
	if d.has(refusesUnusable) && (unusable(a.Node()) || unusable(b.Node())) {
		return false
	}
	if d.has(comparesTaints) && !equalSets(taintTexts(a.Node()), taintTexts(b.Node())) {
		return false
	}
	return r.numbersSimilar(a, b, d) && r.labelsEqual(a.Node(), b.Node(), d)
}

func (r *ruleBook) chosenLabelsEqual(a, b *v1.Node) bool {
	for _, key := range r.options.labels {
		left, onLeft := a.Labels[key]
		right, onRight := b.Labels[key]
		if !onLeft || !onRight || left != right {
			return false
		}
	}
	return true
}

func sameAgentPool(a, b *v1.Node) bool {
	for _, key := range []string{"agentpool", "kubernetes.azure.com/agentpool"} {
		if a.Labels[key] != "" && a.Labels[key] == b.Labels[key] {
			return true
		}
	}
	return false
}

func unusable(node *v1.Node) bool {
	for _, list := range []v1.ResourceList{node.Status.Capacity, node.Status.Allocatable} {
		for _, quantity := range list {
			if quantity.Sign() < 0 {
				return true
			}
		}
	}
	return len(node.Status.Capacity) == 0
}

func taintTexts(node *v1.Node) (out []string) {
	for _, t := range node.Spec.Taints {
		out = append(out, t.Key+"="+t.Value+":"+string(t.Effect))
	}
	return out
}

func equalSets(a, b []string) bool {
	sorted := func(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }
	return slices.Equal(sorted(a), sorted(b))
}

// Labels.

func (r *ruleBook) labelsEqual(a, b *v1.Node, d departure) bool {
	return equalSets(r.comparedLabels(a, d), r.comparedLabels(b, d))
}

func (r *ruleBook) comparedLabels(node *v1.Node, d departure) (out []string) {
	for key, value := range node.Labels {
		if d.has(labelAliases) {
			var dropped bool
			if key, dropped = r.currentName(node, key, value, d); dropped {
				continue
			}
		}
		if !r.ignores(node, key, d) {
			out = append(out, key+"="+value)
		}
	}
	return out
}

// currentName renames a deprecated label, or drops it where the current one says the same or is
// ignored.
func (r *ruleBook) currentName(node *v1.Node, key, value string, d departure) (name string, dropped bool) {
	for _, alias := range r.packs.Aliases {
		if key != alias.Deprecated {
			continue
		}
		current, present := node.Labels[alias.Current]
		switch {
		case r.ignores(node, alias.Current, d), present && current == value:
			return "", true
		case !present:
			return alias.Current, false
		}
	}
	return key, false
}

func (r *ruleBook) ignores(node *v1.Node, key string, d departure) bool {
	if !d.has(labelPacks) {
		return r.ignored[key]
	}
	if slices.Contains(r.options.ignore, key) {
		return true
	}
	for _, pack := range r.packs.Packs {
		if slices.Contains(pack.Labels, key) {
			return true
		}
		if pack.Cloud != nil && slices.Contains(pack.Cloud.Labels, key) && r.shows(node, pack.Cloud) {
			return true
		}
	}
	return false
}

func (r *ruleBook) shows(node *v1.Node, cloud *engine.CloudPack) bool {
	for _, pack := range r.packs.Packs {
		if pack.Cloud != nil && slices.ContainsFunc(pack.Cloud.Schemes,
			func(scheme string) bool { return strings.HasPrefix(node.Spec.ProviderID, scheme+":") }) {
			return pack.Cloud.Schemes[0] == cloud.Schemes[0]
		}
	}
	for key := range node.Labels {
		if slices.ContainsFunc(cloud.Prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
			return true
		}
	}
	return false
}

// Numbers.

func (r *ruleBook) numbersSimilar(a, b *framework.NodeInfo, d departure) bool {
	left, right := a.Node().Status.Capacity, b.Node().Status.Capacity
	for _, name := range names(left, right) {
		if !inBoth(left, right, name) && !d.has(missingIsZero) {
			return false
		}
		if name != v1.ResourceMemory {
			if x, y := left[name], right[name]; x.Cmp(y) != 0 {
				return false
			}
		} else if !r.within(left[name], right[name], r.options.ratios.MaxCapacityMemoryDifferenceRatio, d) {
			return false
		}
	}
	left, right = a.Node().Status.Allocatable, b.Node().Status.Allocatable
	for _, name := range names(left, right) {
		if !inBoth(left, right, name) && !d.has(missingIsZero) ||
			!r.within(left[name], right[name], r.options.ratios.MaxAllocatableDifferenceRatio, d) {
			return false
		}
	}
	return r.freeSimilar(a, b, d)
}

func (r *ruleBook) freeSimilar(a, b *framework.NodeInfo, d departure) bool {
	left, right := requests(a, d), requests(b, d)
	compared := names(left, right)
	if d.has(everyFree) {
		compared = names(left, right, a.Node().Status.Allocatable, b.Node().Status.Allocatable)
	}
	for _, name := range compared {
		requestedByNeither := d.has(everyFree) && !inEither(left, right, name)
		if !inBoth(left, right, name) && !d.has(missingIsZero) && !requestedByNeither {
			return false
		}
		x, y := freeAmount(a, left, name), freeAmount(b, right, name)
		if !r.within(x, y, r.options.ratios.MaxFreeDifferenceRatio, d) {
			return false
		}
	}
	return true
}

func freeAmount(n *framework.NodeInfo, requested v1.ResourceList, name v1.ResourceName) resource.Quantity {
	free := n.Node().Status.Allocatable[name].DeepCopy()
	free.Sub(requested[name])
	return free
}

func names(lists ...v1.ResourceList) (out []v1.ResourceName) {
	for _, list := range lists {
		for name := range list {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func inBoth(a, b v1.ResourceList, name v1.ResourceName) bool {
	_, onLeft := a[name]
	_, onRight := b[name]
	return onLeft && onRight
}

func inEither(a, b v1.ResourceList, name v1.ResourceName) bool {
	_, onLeft := a[name]
	_, onRight := b[name]
	return onLeft || onRight
}

// requests sums what the pods of a template request: always of the four resources every pod may
// use, and of others that some pod names. The scheduler, and so upstream, counts every pod in whole
// units, thousandths for cpu.
func requests(n *framework.NodeInfo, d departure) v1.ResourceList {
	out := v1.ResourceList{v1.ResourceCPU: {}, v1.ResourceMemory: {}, v1.ResourcePods: {}, v1.ResourceEphemeralStorage: {}}
	fromStatus := !d.has(requestsOfSpec)
	for _, pod := range n.Pods() {
		of := podresource.PodRequests(pod.Pod, podresource.PodResourcesOptions{
			UseStatusResources: fromStatus, InPlacePodLevelResourcesVerticalScalingEnabled: fromStatus,
		})
		for name, quantity := range of {
			if !d.has(exactRequests) {
				quantity = roundedUp(name, quantity)
			}
			sum := out[name].DeepCopy()
			sum.Add(quantity)
			out[name] = sum
		}
	}
	return out
}

func roundedUp(name v1.ResourceName, q resource.Quantity) resource.Quantity {
	if name == v1.ResourceCPU {
		return *resource.NewMilliQuantity(q.MilliValue(), q.Format)
	}
	return *resource.NewQuantity(q.Value(), q.Format)
}

// within says whether two amounts differ by no more than the ratio.
func (r *ruleBook) within(x, y resource.Quantity, ratio float64, d departure) bool {
	if d.has(exactRatios) {
		return r.withinExactly(x, y, ratio, d)
	}
	a, b := float64(x.MilliValue()), float64(y.MilliValue())
	larger, smaller := math.Max(a, b), math.Min(a, b)
	if d.has(negativeFree) {
		if larger == smaller {
			return true
		}
		return larger-smaller <= math.Max(math.Abs(larger), math.Abs(smaller))*ratio
	}
	return larger-smaller <= larger*ratio
}

func (r *ruleBook) withinExactly(x, y resource.Quantity, ratio float64, d departure) bool {
	larger, smaller := thousandths(x), thousandths(y)
	if larger.Cmp(smaller) < 0 {
		larger, smaller = smaller, larger
	}
	measure := new(big.Rat).Set(larger)
	if d.has(negativeFree) {
		if larger.Cmp(smaller) == 0 {
			return true
		}
		if other := new(big.Rat).Abs(smaller); other.Cmp(measure.Abs(measure)) > 0 {
			measure = other
		}
	}
	return new(big.Rat).Sub(larger, smaller).Cmp(measure.Mul(measure, r.ratios[ratioText(ratio)])) <= 0
}

// thousandths rounds away from zero, as a Quantity does.
func thousandths(q resource.Quantity) *big.Rat {
	copied := q.DeepCopy()
	value, _ := new(big.Rat).SetString(copied.AsDec().String())
	value.Mul(value, big.NewRat(1000, 1))
	whole, rest := new(big.Int).QuoRem(value.Num(), value.Denom(), new(big.Int))
	return new(big.Rat).SetInt(whole.Add(whole, big.NewInt(int64(rest.Sign()))))
}
