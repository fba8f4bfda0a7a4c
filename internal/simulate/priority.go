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

// priorityClasses are the PriorityClass objects of the files.
type priorityClasses struct {
	byName  map[string]*schedulingv1.PriorityClass
	general *schedulingv1.PriorityClass // of pods that name none
}

func (c *priorityClasses) add(class *schedulingv1.PriorityClass) {
	if c.byName == nil {
		c.byName = map[string]*schedulingv1.PriorityClass{}
	}
	c.byName[class.Name] = class
	if class.GlobalDefault {
		c.general = class
	}
}

// prioritize sets the priority of pods without one, and whether they preempt, from their class, as an API
// server does.
func (l *loader) prioritize() {
	missing := map[string]bool{}
	for _, p := range l.setup.Pods {
		l.classes.prioritize(&p.Spec, missing)
	}
	for i := range l.setup.Workloads {
		l.classes.prioritize(&l.setup.Workloads[i].Pod.Spec, missing)
	}
	for i := range l.setup.Buffers {
		l.classes.prioritize(&l.setup.Buffers[i].Pod.Spec, missing)
	}
	for _, set := range l.setup.DaemonSets {
		l.classes.prioritize(&set.Spec.Template.Spec, missing)
	}
	if names := slices.Sorted(maps.Keys(missing)); len(names) > 0 {
		l.setup.Notes = append(l.setup.Notes, fmt.Sprintf("the files have no priority class %s, so pods of it count with priority 0: put the output of kubectl get priorityclasses into a file of podsFrom",
			strings.Join(names, ", ")))
	}
}

func (c *priorityClasses) prioritize(s *v1.PodSpec, missing map[string]bool) {
	if s.Priority != nil {
		return
	}
	class := c.byName[s.PriorityClassName]
	if s.PriorityClassName == "" {
		class = c.general
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
