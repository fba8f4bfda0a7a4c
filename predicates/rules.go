package predicates

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	v1helper "k8s.io/kubernetes/pkg/apis/core/v1/helper"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// profileRules are what the profile and the cluster objects add to what the
// pods themselves look at.
type profileRules struct {
	// nodeKeys are node label keys looked at on behalf of every pod: by an added
	// node affinity, default spread constraints, volumes and storage classes.
	nodeKeys []string
	// podKeys are pod label keys that default hard spread constraints look at;
	// ownerKeys those of the services and controllers that stand in for their
	// selector.
	podKeys, ownerKeys []string
	// defaults are the default spread constraints, and spread those of them that are hard.
	defaults, spread []v1.TopologySpreadConstraint
	// These plugins are on: NodeResourcesFit, NodePorts, NodeVolumeLimits, PodTopologySpread and
	// InterPodAffinity. Their answers are worked out here.
	resources, ports, attach, spreads, affine bool
	// ignores tells the extended resources that NodeResourcesFit leaves alone; nil: none.
	ignores func(v1.ResourceName) bool
}

func rulesOf(profile *config.KubeSchedulerProfile) (profileRules, error) {
	r := profileRules{}
	for _, pc := range profile.PluginConfig {
		switch args := pc.Args.(type) {
		case *config.PodTopologySpreadArgs:
			r.defaultConstraints(args)
		case *config.NodeAffinityArgs:
			if a := args.AddedAffinity; a != nil && a.RequiredDuringSchedulingIgnoredDuringExecution != nil {
				r.nodeKeys = appendSelectorKeys(r.nodeKeys, a.RequiredDuringSchedulingIgnoredDuringExecution)
				if onHost(a.RequiredDuringSchedulingIgnoredDuringExecution) {
					return r, fmt.Errorf("%w: added node affinity to single nodes", ErrConfiguration)
				}
			}
		case *config.NodeResourcesFitArgs:
			if len(args.IgnoredResources)+len(args.IgnoredResourceGroups) > 0 {
				r.ignores = func(name v1.ResourceName) bool {
					group, _, _ := strings.Cut(string(name), "/")
					return v1helper.IsExtendedResourceName(name) &&
						(slices.Contains(args.IgnoredResources, string(name)) || slices.Contains(args.IgnoredResourceGroups, group))
				}
			}
		}
	}
	return r, nil
}

func (r *profileRules) defaultConstraints(args *config.PodTopologySpreadArgs) {
	if args.DefaultingType != config.ListDefaulting {
		return // the built-in constraints are all soft
	}
	r.defaults = args.DefaultConstraints
	for _, c := range args.DefaultConstraints {
		if c.WhenUnsatisfiable != v1.DoNotSchedule {
			continue
		}
		r.spread = append(r.spread, c)
		r.nodeKeys = append(r.nodeKeys, c.TopologyKey)
		r.podKeys = append(r.podKeys, c.MatchLabelKeys...)
	}
}

// object notes the labels of pods that an object looks at, and returns those of nodes that it makes
// pods look at.
func (r *profileRules) object(o runtime.Object) (nodeKeys []string) {
	switch o := o.(type) {
	case *v1.PersistentVolume:
		nodeKeys = append(nodeKeys, volumeZoneLabels...)
		if o.Spec.CSI == nil && translator.IsPVMigratable(o) {
			nodeKeys = append(nodeKeys, zoneKeys...) // it may be looked at as the driver's
		}
		if o.Spec.NodeAffinity != nil && o.Spec.NodeAffinity.Required != nil {
			nodeKeys = appendSelectorKeys(nodeKeys, o.Spec.NodeAffinity.Required)
		}
	case *storagev1.StorageClass:
		for _, t := range o.AllowedTopologies {
			for _, e := range t.MatchLabelExpressions {
				nodeKeys = append(nodeKeys, e.Key)
			}
		}
	case *storagev1.CSIStorageCapacity:
		nodeKeys = labelSelectorKeys(o.NodeTopology)
	case *v1.Service:
		r.owned(mapKeys(o.Spec.Selector))
	case *v1.ReplicationController:
		r.owned(mapKeys(o.Spec.Selector))
	case *appsv1.ReplicaSet:
		r.owned(labelSelectorKeys(o.Spec.Selector))
	case *appsv1.StatefulSet:
		r.owned(labelSelectorKeys(o.Spec.Selector))
	}
	return nodeKeys
}

// owned notes keys of the selector of a service or controller.
func (r *profileRules) owned(keys []string) {
	r.ownerKeys = append(r.ownerKeys, keys...)
	if len(r.spread) > 0 {
		r.podKeys = append(r.podKeys, keys...)
	}
}

func mapKeys(m map[string]string) []string { return slices.Collect(maps.Keys(m)) }

func labelSelectorKeys(s *metav1.LabelSelector) []string {
	if s == nil {
		return nil
	}
	keys := mapKeys(s.MatchLabels)
	for _, e := range s.MatchExpressions {
		keys = append(keys, e.Key)
	}
	return keys
}

func appendSelectorKeys(keys []string, s *v1.NodeSelector) []string {
	for _, t := range s.NodeSelectorTerms {
		for _, e := range t.MatchExpressions {
			keys = append(keys, e.Key)
		}
	}
	return keys
}

// onHost reports whether a node selector picks nodes by name or hostname.
func onHost(s *v1.NodeSelector) bool {
	for _, t := range s.NodeSelectorTerms {
		if len(t.MatchFields) > 0 {
			return true
		}
		for _, e := range t.MatchExpressions {
			if e.Key == v1.LabelHostname {
				return true
			}
		}
	}
	return false
}
