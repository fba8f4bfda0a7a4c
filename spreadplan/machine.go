package spreadplan

import (
	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/podfit"
)

// Machine is a node, or one to come, as pods see it.
type Machine struct {
	Node   *v1.Node
	Free   podfit.Resources // beside the pods on it
	Usable bool             // takes pods; those on others are counted all the same
	Fresh  bool             // on its way, or planned
	Pods   []*v1.Pod        // on it

	id     int             // its position among the machines
	placed map[*Kind]int64 // by the plan
}
