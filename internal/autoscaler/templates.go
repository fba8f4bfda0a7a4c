package autoscaler

import (
	"bytes"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/internal/linked"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
	"github.com/evenkeel/evenkeel/predicates"
)

// fromCloud is where the template of a group is from that has never had a node.
const fromCloud = "cloud"

// nodeTemplate is what the next node of a group looks like, with the pods that run on every node of
// it. The same source has the same nodeTemplate in every loop.
type nodeTemplate struct {
	predicates.Node
	from string // "node NAME" or fromCloud
	name string // what Cluster Autoscaler calls it: it draws a new one in every loop

	source  predicates.Node // what it was made of
	spelled []byte          // the source as the cloud sends it, whose answers are new objects
	shown   linked.Template
}

// copied is the template as a node to come, with a suffix to its name.
func (t *nodeTemplate) copied(suffix string) predicates.Node {
	return predicates.Node{Node: renamed(t.Node.Node, t.name+suffix), Pods: t.Pods}
}

// named gives a template the name of this loop.
func (a *Autoscaler) named(id string, t *nodeTemplate) *nodeTemplate {
	t.name = fmt.Sprintf("template-node-for-%s-%d", id, a.random.Uint64())
	return t
}

// ofNode makes a template of a node of the group.
func (a *Autoscaler) ofNode(id string, node predicates.Node) *nodeTemplate {
	if known := a.made[id]; known != nil && known.source.Same(node) {
		return known
	}
	t := template.OfNode(id, node.Node, node.Pods, a.options.StartupTaints)
	a.options.Checker.LikeNode(t.Node, node.Node)
	return a.make(id, t, node, "node "+node.Node.Name)
}

// ofCloud makes a template of what the cloud says of the group.
func (a *Autoscaler) ofCloud(id string, node *v1.Node) *nodeTemplate {
	spelled, err := node.Marshal()
	if known := a.made[id]; err == nil && known != nil && bytes.Equal(known.spelled, spelled) {
		return known
	}
	t := template.OfCloud(id, cloudprovider.Template{Node: node}, a.config.DaemonSets, a.options.StartupTaints)
	made := a.make(id, t, predicates.Node{Node: node}, fromCloud)
	made.spelled = spelled
	return made
}

func (a *Autoscaler) make(id string, t *cloudprovider.Template, source predicates.Node, from string) *nodeTemplate {
	made := &nodeTemplate{Node: predicates.Node{Node: t.Node, Pods: t.Pods}, from: from, source: source}
	made.shown = shown(made.Node)
	a.made[id] = made
	return made
}

// updateTemplates finds what the next node of every group looks like: as a ready node of it, as one
// earlier, as the provider says, as a node that is not ready.
func (a *Autoscaler) updateTemplates(nodes []predicates.Node) {
	now := a.clock.Now()
	a.templates = map[string]*nodeTemplate{}
	a.choices.begin(a.world.Pending(), nodes, now)
	offer := func(node predicates.Node) (id string, made bool) {
		id, err := a.remote.groupOf(node.Node)
		if err != nil || id == "" {
			return "", false
		}
		a.choices.see(id, node.Node)
		if a.templates[id] != nil {
			return "", false
		}
		a.templates[id] = a.named(id, a.ofNode(id, node))
		return id, true
	}
	var bad []predicates.Node
	for _, node := range nodes {
		if !goodTemplate(node.Node, now) {
			bad = append(bad, node)
		} else if id, made := offer(node); made {
			a.seen[id] = a.templates[id]
		}
	}
	seen := map[string]*nodeTemplate{}
	for _, g := range a.remote.NodeGroups() {
		if template := a.seen[g.ID]; template != nil {
			seen[g.ID] = template
			if a.templates[g.ID] == nil {
				a.templates[g.ID] = template
			}
		}
		if a.templates[g.ID] != nil {
			continue
		}
		if node, err := a.remote.template(g); err == nil && node != nil {
			a.templates[g.ID] = a.named(g.ID, a.ofCloud(g.ID, node))
		}
	}
	a.seen = seen
	for _, node := range bad {
		offer(node)
	}
}
