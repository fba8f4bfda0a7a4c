package predicates

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// podMark is what changes of a pod whenever an API server or a scheduler changes it.
type podMark struct {
	uid           types.UID
	version, node string
}

func markPod(p *v1.Pod) podMark { return podMark{p.UID, p.ResourceVersion, p.Spec.NodeName} }

// nodeMark is the same of a node, and what an autoscaler writes to its own copies.
type nodeMark struct {
	uid           types.UID
	version       string
	unschedulable bool
	taints        int
}

func markNode(n *v1.Node) nodeMark {
	return nodeMark{n.UID, n.ResourceVersion, n.Spec.Unschedulable, len(n.Spec.Taints)}
}

// byPod is what was found out about pods, by the objects themselves.
type byPod[T any] map[*v1.Pod]found[T]

type found[T any] struct {
	mark podMark
	is   T
}

// get returns what is known of the pod. It is an error if the object was changed since.
func (b byPod[T]) get(p *v1.Pod) (is T, known bool, err error) {
	f, known := b[p]
	if known && f.mark != markPod(p) {
		return f.is, known, fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, ErrChangedObject)
	}
	return f.is, known, nil
}

func (b byPod[T]) put(p *v1.Pod, is T) { b[p] = found[T]{markPod(p), is} }

// checked makes the Checker forget everything if an object was changed.
func (u *index) checked(err error) error {
	if err != nil && u.c.shared == u {
		u.c.shared = nil
	}
	return err
}
