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

// priorityClasses are the values of the PriorityClass objects of the files.
type priorityClasses struct {
	values  map[string]int32
	general *schedulingv1.PriorityClass // of pods that name none
}

func (c *priorityClasses) add(class *schedulingv1.PriorityClass) {
	if c.values == nil {
		c.values = map[string]int32{}
	}
	c.values[class.Name] = class.Value
	if class.GlobalDefault {
		c.general = class
	}
}

// prioritize sets the priority of pods without one from their class, as an API server does.
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
	value, known := c.values[s.PriorityClassName]
	if !known {
		value, known = systemPriorities[s.PriorityClassName]
	}
	switch {
	case known:
	case s.PriorityClassName != "":
		missing[s.PriorityClassName] = true
		return
	case c.general != nil:
		value = c.general.Value
	default:
		return
	}
	s.Priority = &value
}
