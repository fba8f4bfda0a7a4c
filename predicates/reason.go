package predicates

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/storage/volume"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/evenkeel/evenkeel/topologyspread"
)

// Reason says why a pod does not fit a template.
type Reason struct {
	// Plugin is the scheduler plugin that rejects, such as NodeResourcesFit or
	// PodTopologySpread.
	Plugin string
	// Message is the plugin's own text, with the amounts added where a resource
	// is short.
	Message string
}

func (r Reason) String() string { return r.Plugin + ": " + r.Message }

// stateDependent tells the plugins whose answer depends on other nodes and may
// turn from no to yes when pods are added.
func stateDependent(plugin string) bool {
	return plugin == names.PodTopologySpread || plugin == names.InterPodAffinity
}

// reasonsOf turns statuses into reasons: the messages of one plugin in sorted
// order, because some plugins walk maps.
func reasonsOf(statuses []*fwk.Status) []Reason {
	var reasons []Reason
	for _, s := range statuses {
		messages := slices.Sorted(slices.Values(s.Reasons()))
		if len(messages) == 0 {
			messages = []string{s.Message()}
		}
		for _, m := range messages {
			reasons = append(reasons, Reason{Plugin: s.Plugin(), Message: m})
		}
	}
	return reasons
}

// explain turns statuses into reasons that tell what is short or unknown.
func (c *Checker) explain(statuses []*fwk.Status, p *v1.Pod, asks *amounts, n *framework.NodeInfo) []Reason {
	reasons := reasonsOf(statuses)
	for i := range reasons {
		r := &reasons[i]
		short, insufficient := strings.CutPrefix(r.Message, "Insufficient ")
		switch {
		case insufficient:
			r.Message += shortage(v1.ResourceName(short), asks, n)
		case r.Message == "Too many pods":
			r.Message += fmt.Sprintf(" (node takes %d)", n.Allocatable.AllowedPodNumber)
		case r.Plugin == names.PodTopologySpread:
			r.Message = c.withMissingKeys(r.Message, p, n.Node())
		case r.Plugin == names.DynamicResources:
			r.Message += " (devices of the resource.k8s.io API are not simulated)"
		default:
			r.Message += c.storage.detail(p, r.Message)
		}
	}
	return reasons
}

// withMissingKeys names the topology keys that a node lacks, where the plugin says that it lacks one.
func (c *Checker) withMissingKeys(message string, p *v1.Pod, n *v1.Node) string {
	constraints, err := topologyspread.Hard(c.Defaulted(p))
	if err != nil || !strings.Contains(message, missingLabel) {
		return message
	}
	var keys []string
	for i := range constraints {
		key := constraints[i].Key
		if _, has := n.Labels[key]; !has && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return strings.Replace(message, missingLabel, missingLabel+" "+strings.Join(keys, ", "), 1)
}

const missingLabel = "missing required label"

// shortage tells the amounts behind an insufficient resource.
func shortage(name v1.ResourceName, asks *amounts, n *framework.NodeInfo) string {
	var want, has, used int64
	format := resource.DecimalSI
	switch name {
	case v1.ResourceCPU:
		return fmt.Sprintf(" (wants %s, free %s of %s allocatable)", milli(asks.MilliCPU),
			milli(n.Allocatable.MilliCPU-n.Requested.MilliCPU), milli(n.Allocatable.MilliCPU))
	case v1.ResourceMemory:
		want, has, used, format = asks.Memory, n.Allocatable.Memory, n.Requested.Memory, resource.BinarySI
	case v1.ResourceEphemeralStorage:
		want, has, used, format = asks.EphemeralStorage, n.Allocatable.EphemeralStorage, n.Requested.EphemeralStorage, resource.BinarySI
	default:
		want, has, used = asks.ScalarResources[name], n.Allocatable.ScalarResources[name], n.Requested.ScalarResources[name]
	}
	return fmt.Sprintf(" (wants %s, free %s of %s allocatable)", quantity(want, format), quantity(has-used, format), quantity(has, format))
}

func milli(n int64) string { return resource.NewMilliQuantity(n, resource.DecimalSI).String() }

func quantity(n int64, f resource.Format) string { return resource.NewQuantity(n, f).String() }

// inOrder sorts reasons as the plugins come in the profile.
func (c *Checker) inOrder(reasons []Reason) []Reason {
	rank := func(r Reason) int {
		return slices.IndexFunc(c.filters, func(f fwk.FilterPlugin) bool { return f.Name() == r.Plugin })
	}
	slices.SortStableFunc(reasons, func(a, b Reason) int { return rank(a) - rank(b) })
	return reasons
}

// detail says what is behind a message about claims: an object that is not known, or a claim that
// somebody else binds.
func (s *storage) detail(p *v1.Pod, message string) string {
	for i := range p.Spec.Volumes {
		name := claimName(p, &p.Spec.Volumes[i])
		if name == "" {
			continue
		}
		c, known := s.claim(p.Namespace + "/" + name)
		if !known {
			if strings.Contains(message, name) {
				return " (not among the objects given)"
			}
			continue
		}
		class := volume.GetPersistentVolumeClaimClass(c)
		_, hasVolume := s.volume(c.Spec.VolumeName)
		_, hasClass := s.class(c)
		switch {
		case c.Spec.VolumeName != "" && !hasVolume && strings.Contains(message, c.Spec.VolumeName),
			c.Spec.VolumeName == "" && !hasClass && class != "" && strings.Contains(message, class):
			return " (not among the objects given)"
		case message == unboundImmediate && hasClass && c.Spec.VolumeName == "" && !s.waits(c):
			return fmt.Sprintf(" (class %s binds at once: its provisioner makes the volume of claim %s before the pod is scheduled)", class, name)
		}
	}
	return ""
}

// unboundImmediate is what VolumeBinding says of a claim that does not wait for its pod and has no
// volume.
const unboundImmediate = "pod has unbound immediate PersistentVolumeClaims"
