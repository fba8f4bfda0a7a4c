package simulate

import (
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/scaleup"
)

// daemonController puts a pod of every daemon set on every node it fits.
type daemonController struct {
	checker *predicates.Checker
	pods    []*v1.Pod         // one of each daemon set
	onGroup map[string][]bool // which of pods run on the nodes of a group
}

func newDaemonController(checker *predicates.Checker, sets []*appsv1.DaemonSet) *daemonController {
	d := &daemonController{checker: checker, onGroup: map[string][]bool{}}
	for _, set := range sets {
		d.pods = append(d.pods, scaleup.DaemonPod(set))
	}
	return d
}

// start runs the daemon sets on a node that has registered, but for those it
// came with. Nodes of one group are alike, so the first one answers for all.
func (d *daemonController) start(n *node) error {
	if len(d.pods) == 0 {
		return nil
	}
	runs, known := d.onGroup[n.group]
	if !known || n.group == "" {
		fit, err := d.checker.Fits(nil, []predicates.Node{{Node: settled(n.object)}}, d.pods)
		if err != nil {
			return err
		}
		runs = make([]bool, len(d.pods))
		for i := range d.pods {
			runs[i] = fit.Passes(0, fit.KindOf(i))
		}
		d.onGroup[n.group] = runs
	}
	for i, p := range d.pods {
		if runs[i] && !carries(n.daemons, p) {
			own := *p
			own.Name += "-" + n.object.Name
			own.Spec.NodeName = n.object.Name
			n.daemons = append(n.daemons, &own)
		}
	}
	return nil
}

func carries(daemons []*v1.Pod, p *v1.Pod) bool {
	for _, other := range daemons {
		owner := metav1.GetControllerOfNoCopy(other)
		if other.Namespace == p.Namespace && owner != nil && owner.Name == p.OwnerReferences[0].Name {
			return true
		}
	}
	return false
}

// settled is the node without the taint of one that still starts, which daemon
// sets need not wait for.
func settled(n *v1.Node) *v1.Node {
	n = n.DeepCopy()
	kept := n.Spec.Taints[:0]
	for _, taint := range n.Spec.Taints {
		if taint.Key != v1.TaintNodeNotReady {
			kept = append(kept, taint)
		}
	}
	n.Spec.Taints = kept
	return n
}
