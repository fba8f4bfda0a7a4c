package simulate

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/nodegroupset/template"
	"github.com/evenkeel/evenkeel/predicates"
)

// daemonController puts a pod of every daemon set on every node it fits.
type daemonController struct {
	checker *predicates.Checker
	pods    []*v1.Pod         // one of each daemon set
	onGroup map[string][]bool // which of pods run on the nodes of a group
	// derived are those of pods whose daemon sets are known only from such pods: the nodes on which
	// they run at the start are known, and so are the groups.
	derived []bool
	// shared says that one pod of each set, named after it, stands for those on all nodes: see AtStart.
	shared bool
}

func newDaemonController(checker *predicates.Checker, setup *Setup) *daemonController {
	d := &daemonController{checker: checker, onGroup: map[string][]bool{}, shared: setup.alike.number > 0}
	for _, set := range setup.DaemonSets {
		d.pods = append(d.pods, template.DaemonPod(set))
		d.derived = append(d.derived, setup.DerivedDaemonSets.Has(set.Namespace+"/"+set.Name))
	}
	return d
}

// begin runs the daemon sets on the nodes of the start.
func (d *daemonController) begin(nodes []*node) error {
	seen := map[string][]bool{} // sets known by their pods, by group
	for _, n := range nodes {
		if len(n.daemons) == 0 && n.group != "" {
			continue
		}
		if seen[n.group] == nil {
			seen[n.group] = make([]bool, len(d.pods))
		}
		for i, p := range d.pods {
			seen[n.group][i] = seen[n.group][i] || d.derived[i] && carries(n.daemons, p)
		}
	}
	for _, n := range nodes {
		runs, err := d.runs(n)
		if err != nil {
			return err
		}
		own := slices.Clone(runs)
		for i := range own {
			if d.derived[i] && seen[n.group] != nil {
				own[i] = false // it exists already, or does not run here
				runs[i] = seen[n.group][i] && n.group != ""
			}
		}
		d.add(n, own)
	}
	return nil
}

// start runs the daemon sets on a node that has registered, except for those that came with it.
// Nodes of one group are equal, so the result for the first one is used for all.
func (d *daemonController) start(n *node) error {
	runs, err := d.runs(n)
	if err != nil {
		return err
	}
	d.add(n, runs)
	return nil
}

// runs returns which of the pods run on the nodes of the node's group.
func (d *daemonController) runs(n *node) ([]bool, error) {
	if len(d.pods) == 0 {
		return nil, nil
	}
	runs, known := d.onGroup[n.group]
	if !known || n.group == "" {
		fit, err := d.checker.Fits(nil, []predicates.Node{{Node: asReady(n.object)}}, d.pods)
		if err != nil {
			return nil, err
		}
		runs = make([]bool, len(d.pods))
		for i := range d.pods {
			runs[i] = fit.Passes(0, fit.KindOf(i))
		}
		d.onGroup[n.group] = runs
	}
	return runs, nil
}

func (d *daemonController) add(n *node, runs []bool) {
	for i, p := range d.pods {
		switch {
		case !runs[i] || carries(n.daemons, p):
		case d.shared:
			n.daemons = append(n.daemons, p)
		default:
			own := *p
			own.Name += "-" + n.object.Name
			own.Spec.NodeName = n.object.Name
			n.daemons = append(n.daemons, &own)
		}
	}
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

// asReady returns the node without the taints of a node that starts or does not respond, which daemon sets tolerate.
func asReady(n *v1.Node) *v1.Node {
	n = n.DeepCopy()
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t v1.Taint) bool {
		return t.Key == v1.TaintNodeNotReady ||
			t.Key == v1.TaintNodeUnreachable
	})
	return n
}
