package predicates

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Node is a node, real or template, and the pods on it. Finished pods
// (Succeeded, Failed) are ignored.
type Node struct {
	Node *v1.Node
	Pods []*v1.Pod
}

// Options configure a Checker. The zero value is the default scheduler profile
// in a cluster without volumes, services and namespace labels.
type Options struct {
	// Configuration is a KubeSchedulerConfiguration (YAML or JSON) with exactly
	// one profile. Empty means the default profile without default spread
	// constraints.
	Configuration []byte
	// Objects are the cluster objects the plugins look up: PersistentVolumeClaims,
	// PersistentVolumes, StorageClasses, CSINodes, CSIDrivers,
	// CSIStorageCapacities, Namespaces, and, for default spread constraints,
	// Services, ReplicationControllers, ReplicaSets and StatefulSets.
	Objects []runtime.Object
}

// Checker runs the scheduler's Filter plugins. It is safe for concurrent use;
// calls run one after the other.
type Checker struct{}

// New builds a Checker. It starts nothing that outlives the call.
func New(ctx context.Context, o Options) (*Checker, error) {
	return &Checker{}, nil
}

// Runs tells how often the plugin chains ran so far: preFilter counts runs of
// all PreFilter plugins for a pod, filter runs of all Filter plugins for a pod
// and a node.
func (c *Checker) Runs() (preFilter, filter int64) {
	return 0, 0
}
