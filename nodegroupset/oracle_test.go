package nodegroupset

import (
	"maps"
	"math/big"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// The oracle is the pairwise definition, written down as the documents have it:
// rational numbers, maps, nothing kept and nothing clever. It has its own copy of
// the label packs.

type oracle struct {
	ignore                    []string
	labels                    []string
	disabled                  []string
	memory, allocatable, free *big.Rat
}

func newOracle(o Options) oracle {
	pick := func(r *Ratio, otherwise string) *big.Rat {
		text := otherwise
		if r != nil {
			text = r.String()
		}
		out, _ := new(big.Rat).SetString(text)
		return out
	}
	return oracle{
		ignore: o.IgnoreLabels, labels: o.Labels, disabled: o.DisabledPacks,
		memory:      pick(o.MemoryDifferenceRatio, "0.015"),
		allocatable: pick(o.MaxAllocatableDifferenceRatio, "0.05"),
		free:        pick(o.MaxFreeDifferenceRatio, "0.05"),
	}
}

var oraclePacks = map[string][]string{
	"basic": {
		"kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/region",
		"failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
		"beta.kubernetes.io/fluentd-ds-ready",
	},
	"kops": {"kops.k8s.io/instancegroup"},
	"kwok": {"kwok-nodegroup", "kwok.x-k8s.io/node"},
	"aws": {
		"alpha.eksctl.io/instance-id", "alpha.eksctl.io/nodegroup-name", "eks.amazonaws.com/nodegroup",
		"eks.amazonaws.com/nodegroup-image", "eks.amazonaws.com/sourceLaunchTemplateId",
		"eks.amazonaws.com/sourceLaunchTemplateVersion", "k8s.amazonaws.com/eniConfig",
		"topology.ebs.csi.aws.com/zone", "topology.k8s.aws/zone-id",
	},
	"azure": {
		"kubernetes.azure.com/agentpool", "kubernetes.azure.com/node-image-version",
		"kubernetes.azure.com/consolidated-additional-properties", "topology.disk.csi.azure.com/zone",
	},
	"gce":        {"topology.gke.io/zone", "cloud.google.com/gke-nodepool"},
	"gardener":   {"worker.gardener.cloud/pool", "worker.garden.sapcloud.io/group", "topology.cinder.csi.openstack.org/zone"},
	"clusterapi": {"cluster.x-k8s.io/deployment-name", "cluster.x-k8s.io/set-name"},
}

var oracleClouds = map[string]struct {
	prefixes, keys []string
}{
	"aws": {
		[]string{"eks.amazonaws.com/", "alpha.eksctl.io/", "k8s.amazonaws.com/", "topology.k8s.aws/"},
		nil,
	},
	"gce": {[]string{"cloud.google.com/", "topology.gke.io/"}, nil},
	"azure": {
		[]string{"kubernetes.azure.com/"},
		[]string{"agentpool", "poolName", "creationSource", "resourceNameSuffix", "aksEngineVersion"},
	},
}

var oracleAliases = map[string]string{
	"beta.kubernetes.io/arch":          "kubernetes.io/arch",
	"beta.kubernetes.io/os":            "kubernetes.io/os",
	"beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}

func (o oracle) similar(a, b cloudprovider.Template) bool {
	if len(o.labels) > 0 {
		for _, key := range o.labels {
			left, hasLeft := a.Node.Labels[key]
			right, hasRight := b.Node.Labels[key]
			if !hasLeft || !hasRight || left != right {
				return false
			}
		}
		return true
	}
	capacityA, capacityB := a.Node.Status.Capacity, b.Node.Status.Capacity
	for name := range union(capacityA, capacityB) {
		if name == v1.ResourceMemory {
			if !o.within(oracleAmount(capacityA, nil, name), oracleAmount(capacityB, nil, name), o.memory) {
				return false
			}
		} else if exactly(capacityA[name]).Cmp(exactly(capacityB[name])) != 0 {
			return false
		}
	}
	allocatableA, allocatableB := a.Node.Status.Allocatable, b.Node.Status.Allocatable
	for name := range union(allocatableA, allocatableB) {
		if !o.within(oracleAmount(allocatableA, nil, name), oracleAmount(allocatableB, nil, name), o.allocatable) {
			return false
		}
	}
	requestsA, requestsB := oracleRequests(a.Pods), oracleRequests(b.Pods)
	for name := range union(allocatableA, allocatableB, requestsA, requestsB) {
		if !o.within(oracleAmount(allocatableA, requestsA, name), oracleAmount(allocatableB, requestsB, name), o.free) {
			return false
		}
	}
	return maps.Equal(o.comparedLabels(a.Node), o.comparedLabels(b.Node)) && maps.Equal(taintSet(a.Node), taintSet(b.Node))
}

func union(lists ...v1.ResourceList) v1.ResourceList {
	out := v1.ResourceList{}
	for _, l := range lists {
		maps.Copy(out, l)
	}
	return out
}

func exactly(q resource.Quantity) *big.Rat {
	copied := q.DeepCopy()
	out, _ := new(big.Rat).SetString(copied.AsDec().String())
	return out
}

// oracleAmount is an amount less the requests in thousandths, rounded away from
// zero.
func oracleAmount(list, requests v1.ResourceList, name v1.ResourceName) *big.Rat {
	value := new(big.Rat).Sub(exactly(list[name]), exactly(requests[name]))
	value.Mul(value, big.NewRat(1000, 1))
	quotient, rest := new(big.Int).QuoRem(value.Num(), value.Denom(), new(big.Int))
	quotient.Add(quotient, big.NewInt(int64(rest.Sign())))
	return new(big.Rat).SetInt(quotient)
}

// oracleRequests knows pods with ordinary containers only.
func oracleRequests(pods []*v1.Pod) v1.ResourceList {
	out := v1.ResourceList{}
	for _, pod := range pods {
		for _, container := range pod.Spec.Containers {
			for name, quantity := range container.Resources.Requests {
				sum := out[name].DeepCopy()
				sum.Add(quantity)
				out[name] = sum
			}
		}
	}
	return out
}

func (o oracle) within(a, b, ratio *big.Rat) bool {
	if a.Cmp(b) == 0 {
		return true
	}
	difference := new(big.Rat).Sub(a, b)
	difference.Abs(difference)
	larger := new(big.Rat).Abs(a)
	if other := new(big.Rat).Abs(b); other.Cmp(larger) > 0 {
		larger = other
	}
	return difference.Cmp(larger.Mul(larger, ratio)) <= 0
}

func (o oracle) comparedLabels(node *v1.Node) map[string]string {
	out := maps.Clone(node.Labels)
	for deprecated, current := range oracleAliases {
		value, ok := out[deprecated]
		if !ok {
			continue
		}
		if o.ignored(node, deprecated) {
			delete(out, deprecated)
		} else if known, ok := out[current]; !ok || known == value {
			delete(out, deprecated)
			out[current] = value
		} else if o.ignored(node, current) {
			delete(out, deprecated)
		}
	}
	maps.DeleteFunc(out, func(key, _ string) bool { return o.ignored(node, key) })
	return out
}

func (o oracle) ignored(node *v1.Node, key string) bool {
	if slices.Contains(o.ignore, key) {
		return true
	}
	for pack, keys := range oraclePacks {
		if !slices.Contains(o.disabled, pack) && slices.Contains(keys, key) {
			return true
		}
	}
	for pack, cloud := range oracleClouds {
		if slices.Contains(o.disabled, pack) || !slices.Contains(cloud.keys, key) {
			continue
		}
		scheme, _, found := strings.Cut(node.Spec.ProviderID, ":")
		if _, known := oracleClouds[scheme]; found && known {
			return scheme == pack
		}
		for label := range node.Labels {
			for _, prefix := range cloud.prefixes {
				if strings.HasPrefix(label, prefix) {
					return true
				}
			}
		}
	}
	return false
}

func taintSet(node *v1.Node) map[[3]string]bool {
	out := map[[3]string]bool{}
	for _, taint := range node.Spec.Taints {
		out[[3]string{taint.Key, taint.Value, string(taint.Effect)}] = true
	}
	return out
}

// sets joins groups as the NodeGroupSimilarity document says.
func (o oracle) sets(templates map[string]cloudprovider.Template) [][]string {
	var sets [][]string
next:
	for _, name := range slices.Sorted(maps.Keys(templates)) {
		for i, set := range sets {
			if o.similar(templates[set[0]], templates[name]) {
				sets[i] = append(sets[i], name)
				continue next
			}
		}
		sets = append(sets, []string{name})
	}
	return sets
}

func (o oracle) partners(templates map[string]cloudprovider.Template, name string) []string {
	var out []string
	for _, other := range slices.Sorted(maps.Keys(templates)) {
		if other != name && o.similar(templates[name], templates[other]) {
			out = append(out, other)
		}
	}
	return out
}
