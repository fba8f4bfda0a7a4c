package simulate

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/autoscalerstatus"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// DumpOptions contain what is missing in a dump.
type DumpOptions struct {
	// Name is the name of the scenario.
	Name string
	// GroupLabel is the label that names the group of a node; empty means that of KnownGroupLabels
	// which most nodes have, the first of several.
	GroupLabel string
	// Bounds are the bounds of groups by name; they take precedence over Cluster Autoscaler's
	// status.
	Bounds map[string]DumpBounds
	// Max is the maximum of groups whose bounds are unknown.
	Max int32
	// Now is when the cluster was dumped; nil is the newest time of its nodes and pods.
	Now *metav1.Time
}

// DumpBounds are the bounds of a node group.
type DumpBounds struct{ Min, Max int32 }

// KnownGroupLabels are the labels and annotations by which clouds name the node group of a node.
var KnownGroupLabels = []string{
	"eks.amazonaws.com/nodegroup", "alpha.eksctl.io/nodegroup-name", "cloud.google.com/gke-nodepool", "kubernetes.azure.com/agentpool",
	"agentpool",
	"kops.k8s.io/instancegroup", "doks.digitalocean.com/node-pool", "k8s.scaleway.com/pool-name", "lke.linode.com/pool-id",
	"ibm-cloud.kubernetes.io/worker-pool-name",
	"hcloud/node-group", "kubernetes.civo.com/civo-node-pool", "vke.vultr.com/node-pool", "node.exoscale.net/nodepool-id",
	"cluster.x-k8s.io/owner-name", "machine.openshift.io/machine", // annotations
}

// Dump collects the objects of a cluster, to make a scenario of them.
type Dump struct {
	nodes    []*v1.Node
	objects  *document.Packed
	interned *document.Interner
	bound    tally                 // pods by node
	bounds   map[string]DumpBounds // by Cluster Autoscaler's name of the group
	ready    []string              // the groups that have ready nodes, by that name
	seen     sets.Set[identity]
	repeated []string
	silent   []string // nodes without a capacity
	newest   time.Time
	unread   string // why the status cannot be read; empty if it can
}

// identity is a hash of the name of an object: a dump may have a million, and their names take more memory than that.
type identity [16]byte

func identityOf(name string) identity {
	hash := sha256.Sum256([]byte(name))
	return identity(hash[:16])
}

// Add adds an object. Objects that a scenario does not use are ignored, as is one that was there already.
func (d *Dump) Add(item document.Item) error {
	if d.seen == nil {
		d.seen, d.bound, d.objects, d.interned = sets.New[identity](), tally{}, new(document.Packed), document.NewInterner()
	}
	meta, ok := item.Object.(metav1.Object)
	if !ok {
		return nil
	}
	name := strings.TrimPrefix(meta.GetNamespace()+"/"+meta.GetName(), "/")
	id := identityOf(item.Kind + " " + name)
	if d.seen.Has(id) {
		d.repeated = append(d.repeated, item.Kind+" "+name)
		return nil
	}
	d.seen.Insert(id)
	switch o := item.Object.(type) {
	case *v1.Node:
		if !d.addNode(o) {
			return nil
		}
		node := plainNode(o)
		timesOfNode(node, d.see)
		item.Object = node
	case *v1.Pod:
		if o.Status.Phase == v1.PodSucceeded || o.Status.Phase == v1.PodFailed {
			return nil
		}
		pod := plainPod(o)
		timesOfPod(pod, d.see)
		item.Object = pod
		if o.Spec.NodeName != "" {
			d.bound.add(o.Spec.NodeName)
		}
	case *appsv1.DaemonSet:
		item.Object = &appsv1.DaemonSet{ObjectMeta: plainMeta(&o.ObjectMeta), Spec: appsv1.DaemonSetSpec{
			Template: v1.PodTemplateSpec{ObjectMeta: plainMeta(&o.Spec.Template.ObjectMeta), Spec: plainSpec(&o.Spec.Template.Spec)},
		}}
	case *v1.ConfigMap:
		if autoscalerstatus.Holds(o) {
			d.readStatus(o)
		}
		return nil
	case *v1.Service:
		item.Object = &v1.Service{ObjectMeta: plainMeta(&o.ObjectMeta), Spec: v1.ServiceSpec{Selector: o.Spec.Selector}}
	case *v1.ReplicationController:
		item.Object = &v1.ReplicationController{ObjectMeta: plainMeta(&o.ObjectMeta),
			Spec: v1.ReplicationControllerSpec{Selector: o.Spec.Selector}}
	case *appsv1.ReplicaSet:
		if o.Status.Replicas == 0 {
			return nil // an old revision
		}
		item.Object = &appsv1.ReplicaSet{ObjectMeta: plainMeta(&o.ObjectMeta), Spec: appsv1.ReplicaSetSpec{Selector: o.Spec.Selector}}
	case *v1.Namespace:
		item.Object = &v1.Namespace{ObjectMeta: plainMeta(&o.ObjectMeta)}
	case *policyv1.PodDisruptionBudget:
		item.Object = &policyv1.PodDisruptionBudget{ObjectMeta: plainMeta(&o.ObjectMeta), Spec: o.Spec}
	}
	return d.objects.Add(item)
}

// see takes notice of a time of a node or pod.
func (d *Dump) see(at *metav1.Time) { d.newest = later(d.newest, at.Time) }

// addNode adds a node, as the API server has it, and reports whether it says how large it is.
func (d *Dump) addNode(n *v1.Node) bool {
	if n.Status.Capacity.Cpu().IsZero() || n.Status.Capacity.Memory().IsZero() {
		d.silent = append(d.silent, n.Name)
		return false
	}
	if n.Status.Allocatable == nil {
		n.Status.Allocatable = n.Status.Capacity
	}
	document.Lean(n)
	d.interned.Node(n)
	d.nodes = append(d.nodes, n)
	return true
}

// readStatus takes the bounds of the node groups from a status of Cluster Autoscaler.
func (d *Dump) readStatus(o *v1.ConfigMap) {
	status, err := autoscalerstatus.Parse(o.Data[autoscalerstatus.Key])
	if err != nil {
		d.unread = fmt.Sprintf("ConfigMap %s/%s is passed over: %v", o.Namespace, o.Name, err)
		return
	}
	if d.bounds == nil {
		d.bounds = map[string]DumpBounds{}
	}
	maps.Copy(d.bounds, boundsIn(status)) // each of several Cluster Autoscalers has its own groups
	for _, g := range status.Groups {
		if g.Ready > 0 {
			d.ready = append(d.ready, g.Name)
		}
	}
}

// Objects are the objects that were added, as those of a scenario.
func (d *Dump) Objects() iter.Seq2[json.RawMessage, error] {
	if d.objects == nil {
		return func(func(json.RawMessage, error) bool) {}
	}
	return rawObjects(d.objects.All(nil))
}

func rawObjects(items iter.Seq2[document.Item, error]) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		for item, err := range items {
			var raw json.RawMessage
			if err == nil {
				raw, err = plainJSON(item.Object, item.APIVersion, item.Kind)
			}
			if !yield(raw, err) {
				return
			}
		}
	}
}

// Dumped is the scenario made from a dump.
type Dumped struct {
	// Scenario is without its objects, as they may be very many.
	Scenario *v1alpha1.Scenario
	// Empty are the names and bounds of groups that Cluster Autoscaler knows and that have no node.
	// They are not in the scenario, because their templates are unknown.
	Empty []v1alpha1.ScenarioNodeGroup
	// Members are the nodes of each group, by name.
	Members map[string][]*v1.Node
	// Known are the names of groups in Cluster Autoscaler's status, by their names in the scenario.
	Known map[string]string
	// Fixed are the names of groups that Cluster Autoscaler does not resize: control planes of which nobody says bounds, and groups
	// that are not in a status in which all others are.
	Fixed []string
	// Notes describe missing information.
	Notes []string

	objects *document.Packed
	lost    tally // pods of nodes that are not in the dump, by node
}

// Items are the objects of the scenario, those of wanted kinds if wanted is not nil.
func (d *Dumped) Items(wanted func(kind string) bool) iter.Seq2[document.Item, error] {
	return func(yield func(document.Item, error) bool) {
		for item, err := range d.objects.All(wanted) {
			if p, ok := item.Object.(*v1.Pod); ok && d.lost[p.Spec.NodeName] > 0 {
				continue
			}
			if !yield(item, err) {
				return
			}
		}
	}
}

// Objects are those of Items as documents have them.
func (d *Dumped) Objects(wanted func(kind string) bool) iter.Seq2[json.RawMessage, error] {
	return rawObjects(d.Items(wanted))
}

// Scenario makes the scenario, with the node groups of the nodes.
func (d *Dump) Scenario(o DumpOptions) (*Dumped, error) {
	slices.SortFunc(d.nodes, func(a, b *v1.Node) int { return strings.Compare(a.Name, b.Name) })
	if len(d.nodes) == 0 {
		return nil, fmt.Errorf("no node has a status.capacity with cpu and memory: %s; kubectl get nodes -o yaml prints it", few(d.silent))
	}
	if o.Now != nil && o.Now.Time.Before(d.newest) {
		return nil, fmt.Errorf("--now=%s: %s", o.Now.UTC().Format(time.RFC3339), beforeNewest(d.newest))
	}
	label := cmp.Or(o.GroupLabel, d.knownLabel())
	members := map[string][]*v1.Node{}
	var strays []*v1.Node
	for i, name := range nodegroupset.ParseGroupLabel(label).Names(d.nodes) {
		if name == "" {
			strays = append(strays, d.nodes[i])
		} else {
			members[name] = append(members[name], d.nodes[i])
		}
	}
	if len(members) == 0 {
		return nil, d.noGroups(label)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Bounds)) {
		if members[name] == nil {
			return nil, fmt.Errorf("no node group %q, the groups are %s", name, few(slices.Sorted(maps.Keys(members))))
		}
	}
	out := &Dumped{Scenario: &v1alpha1.Scenario{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.KindScenario},
		ObjectMeta: metav1.ObjectMeta{Name: o.Name},
		Spec:       v1alpha1.ScenarioSpec{GroupLabel: label, Now: o.Now},
	}}
	d.addObjects(out)
	if err := d.addGroups(out, members, o); err != nil {
		return nil, err
	}
	for _, g := range out.Scenario.Spec.NodeGroups {
		out.note(machinesNote(g.Name, g.Template, members[g.Name]))
	}
	out.note(straysNote(label, strays))
	return out, nil
}

func (d *Dumped) note(text string) {
	if text != "" {
		d.Notes = append(d.Notes, text)
	}
}

// list adds a note about some names, if there are any.
func (d *Dumped) list(text string, names []string) {
	if len(names) > 0 {
		d.note(text + few(names))
	}
}

// noGroups is the error of a dump whose nodes have no label that names their groups.
func (d *Dump) noGroups(label string) error {
	candidates := nodegroupset.GroupLabelCandidates(d.nodes)
	pools := sets.New[string]()
	for _, n := range d.nodes {
		pools.Insert(n.Labels[nodegroupset.KarpenterPool])
	}
	text := "no node has a label that is known to name its group, such as " + KnownGroupLabels[0]
	if label != "" {
		text = "no node has the label " + label
	}
	if pools.Delete("").Len() > 0 {
		text += fmt.Sprintf("; Karpenter made the nodes of %s, and Cluster Autoscaler does not resize such nodes: "+
			"--group-label=%s plays its pools as groups of equal nodes",
			few(sets.List(pools)), nodegroupset.KarpenterPool)
	}
	if len(candidates) == 0 {
		candidates = []string{"--group-label=KEY"}
	}
	return fmt.Errorf("%s; name them by another label or annotation: %s", text, few(candidates))
}

// addObjects adds the objects, without pods of nodes that are not in the dump.
func (d *Dump) addObjects(out *Dumped) {
	out.objects, out.lost = d.objects, maps.Clone(d.bound)
	for _, n := range d.nodes {
		delete(out.lost, n.Name)
	}
	if len(d.silent) > 0 {
		slices.Sort(d.silent)
		out.note(fmt.Sprintf("left out: %s without a status.capacity, as before its kubelet has reported it: %s",
			spelling.Count(len(d.silent), "node"), few(d.silent)))
	}
	out.note(lostPodsNote(out.lost))
	out.list("given more than once, of which the first counts: ", d.repeated)
}

// addGroups adds the groups, with their bounds.
func (d *Dump) addGroups(out *Dumped, members map[string][]*v1.Node, o DumpOptions) error {
	inStatus := d.matchBounds(members)
	out.Known, out.Members = inStatus, members
	out.note(d.unread)
	listed := len(d.ready) > 0 && sets.New(slices.Collect(maps.Values(inStatus))...).HasAll(d.ready...)
	var unbounded, above []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		size := int32(len(members[name]))
		bounds, known := o.Bounds[name]
		if !known {
			bounds, known = d.bounds[inStatus[name]]
		}
		switch {
		case !known && (listed || isControlPlane(members[name][0])):
			bounds = DumpBounds{size, size}
			out.Fixed = append(out.Fixed, name)
		case !known:
			bounds.Max = max(o.Max, size)
			unbounded = append(unbounded, name)
		case size > bounds.Max:
			above = append(above, fmt.Sprintf("%s (%d, maximum %d)", name, size, bounds.Max))
			bounds.Max = size
		}
		t, err := template.OfNodes(name, members[name], func(string) []*v1.Pod { return nil })
		if err != nil {
			return err
		}
		out.Scenario.Spec.NodeGroups = append(out.Scenario.Spec.NodeGroups, v1alpha1.ScenarioNodeGroup{
			Name: name, Zones: severalZones(members[name]), Min: bounds.Min, Max: &bounds.Max, Template: templateOf(t.Node),
		})
	}
	out.list("groups with more nodes than their maximum get no more, and are played with as many as they have: ", above)
	out.list("control planes, and groups that are not in the status of Cluster Autoscaler, keep their size: ", out.Fixed)
	if len(unbounded) > 0 {
		out.note(fmt.Sprintf("the bounds of %s are unknown, so they are 0 and %d: give --nodes=MIN:MAX:GROUP, or the "+
			"ConfigMap %s of Cluster Autoscaler",
			few(unbounded), o.Max, autoscalerstatus.ConfigMap))
	}
	bounded := sets.New(slices.Collect(maps.Values(inStatus))...)
	var empty []string
	for _, name := range slices.Sorted(maps.Keys(d.bounds)) {
		if b := d.bounds[name]; !bounded.Has(name) {
			empty = append(empty, name)
			out.Empty = append(out.Empty, v1alpha1.ScenarioNodeGroup{Name: name, Min: b.Min, Max: &b.Max})
		}
	}
	out.list("Cluster Autoscaler knows groups for which no node was found, so their templates are unknown: they are a "+
		"comment below nodeGroups, for you to fill in: ", empty)
	return nil
}

func isControlPlane(n *v1.Node) bool {
	_, named := n.Labels["node-role.kubernetes.io/control-plane"]
	_, before := n.Labels["node-role.kubernetes.io/master"]
	return named || before
}

// knownLabel returns the label of KnownGroupLabels that most nodes have, the first of several; empty
// if no node has one.
func (d *Dump) knownLabel() (best string) {
	most := 0
	for _, label := range KnownGroupLabels {
		have, named := 0, nodegroupset.ParseGroupLabel(label)
		for _, n := range d.nodes {
			if named.Of(n) != "" {
				have++
			}
		}
		if have > most {
			best, most = label, have
		}
	}
	return best
}

func severalZones(nodes []*v1.Node) []string {
	zones := sets.New[string]()
	for _, n := range nodes {
		zones.Insert(nodegroupset.ZoneOf(n))
	}
	if zones.Delete(""); len(zones) < 2 {
		return nil
	}
	return sets.List(zones)
}

// templateOf is the template of a group as a scenario has it.
func templateOf(of *v1.Node) *v1.Node {
	labels := maps.Clone(of.Labels)
	delete(labels, v1.LabelHostname)
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       v1.NodeSpec{Taints: of.Spec.Taints, ProviderID: of.Spec.ProviderID},
		Status:     v1.NodeStatus{Capacity: of.Status.Capacity, Allocatable: of.Status.Allocatable},
	}
}

// plainMeta returns the metadata that a simulation uses.
func plainMeta(m *metav1.ObjectMeta) metav1.ObjectMeta {
	annotations := maps.Clone(m.Annotations)
	delete(annotations, v1.LastAppliedConfigAnnotation)
	return metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, Labels: m.Labels, Annotations: annotations, OwnerReferences: m.OwnerReferences,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp, DeletionGracePeriodSeconds: m.DeletionGracePeriodSeconds,
	}
}

func plainNode(n *v1.Node) *v1.Node {
	out := &v1.Node{
		ObjectMeta: plainMeta(&n.ObjectMeta),
		Spec:       v1.NodeSpec{ProviderID: n.Spec.ProviderID, Taints: n.Spec.Taints, Unschedulable: n.Spec.Unschedulable},
		Status:     v1.NodeStatus{Capacity: n.Status.Capacity, Allocatable: n.Status.Allocatable},
	}
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady {
			out.Status.Conditions = append(out.Status.Conditions, v1.NodeCondition{
				Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime, LastHeartbeatTime: c.LastHeartbeatTime,
			})
		}
	}
	return out
}

func plainPod(p *v1.Pod) *v1.Pod {
	out := &v1.Pod{ObjectMeta: plainMeta(&p.ObjectMeta), Spec: plainSpec(&p.Spec)}
	if p.Spec.NodeName != "" {
		out.Status = running(p)
		return out
	}
	out.Status = v1.PodStatus{Phase: p.Status.Phase, NominatedNodeName: p.Status.NominatedNodeName}
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status != v1.ConditionTrue {
			out.Status.Conditions = append(out.Status.Conditions, v1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason})
		}
	}
	return out
}

// plainSpec returns the specification without images, commands, variables and probes.
func plainSpec(s *v1.PodSpec) v1.PodSpec {
	out := *s
	plain := func(all []v1.Container) []v1.Container {
		var out []v1.Container
		for _, c := range all {
			out = append(out, v1.Container{Name: c.Name, Image: c.Image, Ports: c.Ports, Resources: c.Resources, RestartPolicy: c.RestartPolicy})
		}
		return out
	}
	out.InitContainers, out.Containers, out.EphemeralContainers = plain(s.InitContainers), plain(s.Containers), nil
	return out
}

// plainJSON returns an object without fields that only an API server uses.
func plainJSON(object any, apiVersion, kind string) (json.RawMessage, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	fields["apiVersion"], fields["kind"] = apiVersion, kind
	for _, name := range []string{"managedFields", "resourceVersion", "generation", "selfLink"} {
		unstructured.RemoveNestedField(fields, "metadata", name)
	}
	unstructured.RemoveNestedField(fields, "status", "nodeInfo")
	unstructured.RemoveNestedField(fields, "status", "daemonEndpoints")
	withoutNulls(fields)
	return json.Marshal(fields)
}

func withoutNulls(value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			if inner == nil {
				delete(v, name)
				continue
			}
			withoutNulls(inner)
		}
	case []any:
		for _, inner := range v {
			withoutNulls(inner)
		}
	}
}
