package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
)

// systemPriorities are the classes that every cluster has.
var systemPriorities = map[string]int32{
	"system-cluster-critical": 2_000_000_000,
	"system-node-critical":    2_000_001_000,
}

// prioritize sets the priority of pods without one, and whether they preempt, from their class, as an API
// server does.
func (l *loader) prioritize() {
	missing := map[string]bool{}
	for _, p := range slices.Concat(l.setup.Pods, l.setup.alike.kinds) {
		l.prioritizeBy(&p.Spec, missing)
	}
	for i := range l.setup.Workloads {
		l.prioritizeBy(&l.setup.Workloads[i].Pod.Spec, missing)
	}
	for i := range l.setup.Buffers {
		l.prioritizeBy(&l.setup.Buffers[i].Pod.Spec, missing)
	}
	for _, set := range l.setup.DaemonSets {
		l.prioritizeBy(&set.Spec.Template.Spec, missing)
	}
	if names := slices.Sorted(maps.Keys(missing)); len(names) > 0 {
		l.note(fmt.Sprintf("the files have no priority class %s, so pods of it count with priority 0: put the output of "+
			"kubectl get priorityclasses into a file of podsFrom",
			strings.Join(names, ", ")))
	}
}

func (l *loader) prioritizeBy(s *v1.PodSpec, missing map[string]bool) {
	if s.Priority != nil {
		return
	}
	class := find[*schedulingv1.PriorityClass](l.objects, "", s.PriorityClassName)
	if s.PriorityClassName == "" {
		class = l.general
	}
	value, ofSystem := systemPriorities[s.PriorityClassName]
	switch {
	case class != nil:
		value = class.Value
		if s.PreemptionPolicy == nil {
			s.PreemptionPolicy = class.PreemptionPolicy
		}
	case s.PriorityClassName == "":
		return
	case !ofSystem:
		missing[s.PriorityClassName] = true
		return
	}
	s.Priority = &value
}
