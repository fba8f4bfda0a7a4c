package simulate

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// AtStart loads a scenario and returns what its first round sees. It holds pods that count alike on their nodes as one, unless
// some may be preempted: then it matters which. So are pods of daemon sets that the files lack.
func AtStart(ctx context.Context, d *document.Document, files Files) (*Moment, error) {
	moment, err := atStart(ctx, d, files, true)
	if errors.Is(err, errPreempts) {
		return atStart(ctx, d, files, false)
	}
	return moment, err
}

// errPreempts is the error of a setup whose pods may be preempted, though some are held as one.
var errPreempts = errors.New("pods on nodes that count alike are held as one, and one may be preempted")

func atStart(ctx context.Context, d *document.Document, files Files, shared bool) (*Moment, error) {
	setup, err := load(d, files, shared)
	if err != nil {
		return nil, err
	}
	return See(ctx, setup, 0)
}

// alike are pods that stay on their nodes, and count there as others do: one without a name stands for all that are equal.
type alike struct {
	kinds  []*v1.Pod            // one of each
	on     map[string][]*v1.Pod // by node; nil if each pod stands for itself
	number int
	newest time.Time // of their creation and start
}

// stayAlike has the pods on nodes that are ready held as one if they count alike. Pods of a scenario with workloads are theirs, and
// those of a zone that fails lose their nodes.
func (l *loader) stayAlike() {
	if len(l.spec.Workloads)+len(l.spec.WorkloadSpreads)+len(l.spec.Faults.Outages) > 0 {
		return
	}
	l.setup.alike.on = map[string][]*v1.Pod{}
	l.setup.eachNode(func(n *v1.Node) {
		if deadTaint(n) == "" {
			l.setup.alike.on[n.Name] = nil
		}
	})
}

// add adds a pod if it counts on its node as others do, and reports whether it does.
func (a *alike) add(p *v1.Pod, interned *document.Interner) bool {
	on, stays := a.on[p.Spec.NodeName]
	owner := metav1.GetControllerOfNoCopy(p)
	if !stays || p.DeletionTimestamp != nil || p.Annotations[autoscaler.RequestAnnotation] != "" || template.RunsOnEveryNode(p) ||
		owner != nil && owner.Kind == "StatefulSet" {
		return false
	}
	like, first := interned.OnNode(p)
	if like == nil {
		return false
	}
	if first {
		like.Namespace = orDefault(p.Namespace)
		a.kinds = append(a.kinds, like)
	}
	a.on[p.Spec.NodeName] = append(on, like)
	a.number++
	a.newest = later(a.newest, p.CreationTimestamp.Time)
	if started := p.Status.StartTime; started != nil {
		a.newest = later(a.newest, started.Time)
	}
	return true
}
