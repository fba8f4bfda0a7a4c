package simulate

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/grouppolicy"
	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// Kinds are the kinds of documents that Load takes.
func Kinds() document.Kinds {
	return document.Kinds{v1alpha1.Scenario{}}
}

// Files is the source of the files that a scenario names.
type Files struct {
	// Open opens a file by the name the scenario gives it.
	Open document.Open
	// MaxSize is the greatest size of one file in bytes; 0 means
	// document.DefaultMaxStream.
	MaxSize int64
	// Objects take the place of spec.objects, as Dumped.Items has them; nil if spec.objects has all.
	Objects func(wanted func(kind string) bool) iter.Seq2[document.Item, error]
	// Progress is called from time to time while files are read; it may be nil. It must return
	// quickly.
	Progress func(Progress)
}

// Load checks a document of kind Scenario, reads the files it names, and turns all of it into a
// Setup. The error for an invalid document or file is a *document.Invalid that lists every problem.
func Load(d *document.Document, files Files) (*Setup, error) { return load(d, files, false) }

// load is Load; shared pods are those of AtStart.
func load(d *document.Document, files Files, shared bool) (*Setup, error) {
	scenario, ok := d.Object.(*v1alpha1.Scenario)
	if !ok {
		return nil, fmt.Errorf("a %s is no %s", d.Kind, v1alpha1.KindScenario)
	}
	if err := d.Invalid(Validate(scenario)); err != nil {
		return nil, err
	}
	l := &loader{
		document: d, spec: &scenario.Spec, files: files, interned: document.NewInterner(), objects: objectStore{},
		groupLabel: nodegroupset.ParseGroupLabel(scenario.Spec.GroupLabel), shared: shared,
	}
	l.takeObjects()
	setup, err := l.load()
	switch {
	case err != nil:
		return nil, err
	case len(l.problems) > 0:
		return nil, &document.Invalid{Problems: d.Cut(l.problems)}
	}
	setup.Name = scenario.Name
	return setup, nil
}

// loader collects a Setup and all errors.
type loader struct {
	document *document.Document
	spec     *v1alpha1.ScenarioSpec
	files    Files
	interned *document.Interner
	shared   bool // pods that count alike on their nodes are held as one
	// groupLabel names the groups of nodes from files.
	groupLabel nodegroupset.GroupLabel
	setup      Setup
	position   map[string]int // of the groups in setup.Cloud.Groups
	objects    objectStore
	general    *schedulingv1.PriorityClass // of pods that name none
	problems   []document.Problem
	daemons    template.DaemonSetFinder
}

func (l *loader) add(errs ...*field.Error) {
	for _, err := range errs {
		l.problems = append(l.problems, l.document.Refuse(err)...)
	}
}

func (l *loader) load() (*Setup, error) {
	s := l.spec
	l.setup.Duration, l.setup.ScanInterval = durationOr(s.Duration, 0), durationOr(s.Options.ScanInterval, 0)
	options, errs := scalerOptions(s)
	l.add(errs...)
	l.setup.Options = options
	l.setup.LeftAlone = autoscaler.PodFilter{
		ExpendablePriorityCutoff: s.Options.ExpendablePodsPriorityCutoff,
		BypassedSchedulers:       s.Options.BypassedSchedulerNames,
		AllowedSchedulers:        s.Options.AllowedSchedulerNames,
	}
	l.setup.ScaleDown = scaleDownOptions(&s.Options)
	l.setup.Version = s.Autoscaler.Version
	l.setup.Mode, l.setup.Seed, l.setup.Salvo = Mode(s.Autoscaler.Mode), s.Options.RandomSeed, s.Options.SalvoScaleUp
	l.setup.Expect = s.Expect
	if s.Options.MaxNodegroupBinpackingDuration != nil {
		l.note("maxNodegroupBinpackingDuration cuts nothing: estimates take no virtual time, and how long they take in life " +
			"depends on the machine; maxNodesPerScaleup bounds them here")
	}
	for _, read := range []func() error{l.readScheduler, l.readGroups, l.readNodes, l.readPods, l.readDaemonSets, l.readStorage} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	for i := range s.Workloads {
		l.setup.Workloads = append(l.setup.Workloads, workload(&s.Workloads[i]))
	}
	l.readSpreads()
	l.setup.Buffers = convert(l, "keeps no room", l.buffer)
	l.setup.Requests = convert(l, "gets no room", l.request)
	l.setup.Budgets = all[*policyv1.PodDisruptionBudget](l.objects)
	l.readQuotas()
	l.prioritize()
	cloud := &l.setup.Cloud
	cloud.Quotas, cloud.StockOuts, cloud.Outages, cloud.Calls = s.Quotas, s.Faults.StockOuts, s.Faults.Outages, s.Faults.Calls
	l.add(cloud.ValidateFaults(specPath, stockOutModes, callMethods)...)
	l.add(validateReferences(s, l.known())...)
	l.checkPolicies()
	l.setup.Shifts = zonalShifts(s.Faults.ZonalShifts)
	l.checkNodes()
	l.add(l.setup.startAt(s.Now, specPath.Child("now"))...)
	l.setup.taintDeadNodes()
	l.setup.startNodes()
	packs, err := nodegroupset.ShippedPacks()
	if err != nil {
		return nil, err
	}
	if err := l.setup.shareCloud(packs); err != nil {
		return nil, err
	}
	l.setup.Storage = l.storage()
	l.limitVolumes()
	if len(l.problems) == 0 {
		l.add(l.setup.Cloud.Validate(specPath)...) // checks of the whole
	}
	return &l.setup, nil
}

func (l *loader) checkPolicies() {
	nodes := make(map[string]*v1.Node, len(l.setup.Cloud.Groups))
	for i := range l.setup.Cloud.Groups {
		g := &l.setup.Cloud.Groups[i]
		nodes[g.ID] = g.Template.Node
	}
	if err := nodegroupset.CheckPolicies(l.setup.Options.Similarity.Policies, nodes); err != nil {
		l.add(grouppolicy.Unsuitable(err, policiesPath))
	}
}

// readGroups adds the groups of the document and those of files.
func (l *loader) readGroups() error {
	machines := map[string]*v1alpha1.ScenarioMachine{}
	for i := range l.spec.Machines {
		machines[l.spec.Machines[i].Name] = &l.spec.Machines[i]
	}
	l.position, l.setup.RegistersAs = map[string]int{}, map[string]*v1.Node{}
	for i := range l.spec.NodeGroups {
		g := &l.spec.NodeGroups[i]
		l.addGroup(inlineGroup(g, machines))
		if g.RegistersAs != "" {
			l.setup.RegistersAs[g.Name] = dress(machineNode(g, machines[g.RegistersAs]), g)
		}
	}
	for i := range l.spec.NodeGroupsFrom {
		from, at := &l.spec.NodeGroupsFrom[i], specPath.Child("nodeGroupsFrom").Index(i)
		templates, err := l.templates(from, at)
		if err != nil {
			return err
		}
		for _, t := range l.withoutRepeats(templates, from, at) {
			g := cloudGroup(t.group, t.template.Node, &from.NodeTimes)
			g.Template = t.template
			l.add(t.bounds(&g, from, at)...)
			l.add(t.capacity(at)...)
			l.addGroup(g)
		}
	}
	return nil
}

// withoutRepeats drops templates of groups that already exist, and reports it once.
func (l *loader) withoutRepeats(templates []groupTemplate, from *v1alpha1.NodeGroupsSource, at *field.Path) []groupTemplate {
	file := cmp.Or(from.File, from.Snapshot)
	counts := map[string]int{}
	var once []groupTemplate
	var repeated []string
	for _, t := range templates {
		counts[t.group]++
		_, taken := l.position[t.group]
		switch {
		case counts[t.group] == 2:
			repeated = append(repeated, t.group)
		case counts[t.group] > 2:
		case taken:
			l.add(&field.Error{Type: field.ErrorTypeDuplicate, Field: at.String(), BadValue: t.group, Detail: "the node group of " + file +
				" already exists"})
		default:
			once = append(once, t)
		}
	}
	if len(repeated) > 0 {
		others := ""
		if len(repeated) > 1 {
			others = fmt.Sprintf(" and %s more than once", spelling.Count(len(repeated)-1, "other"))
		}
		l.add(field.Invalid(at.Child("file"), file,
			fmt.Sprintf("lists node group %s %d times%s: give one node for each group, and the nodes of a cluster in nodesFrom",
				repeated[0], counts[repeated[0]], others)))
	}
	return once
}

// addGroup adds a group whose name has been checked.
func (l *loader) addGroup(g fake.Group) {
	l.position[g.ID] = len(l.setup.Cloud.Groups)
	l.setup.Cloud.Groups = append(l.setup.Cloud.Groups, g)
}

// readNodes adds every node of the files to its group.
func (l *loader) readNodes() error {
	names := sets.New[string]()
	for i := range l.spec.NodesFrom {
		at := specPath.Child("nodesFrom").Index(i)
		err := read(l, &l.spec.NodesFrom[i], at, func(n *v1.Node) {
			if names.Has(n.Name) {
				l.add(field.Duplicate(at, n.Name))
				return
			}
			names.Insert(n.Name)
			register(n)
			l.interned.Node(n)
			l.addNode(n, at)
		})
		if err != nil {
			return err
		}
	}
	l.splitByZone()
	for i := range l.setup.Cloud.Groups {
		g := &l.setup.Cloud.Groups[i]
		g.Size, g.KeepNodes = max(g.Size, len(g.Nodes)), true
	}
	return nil
}

func (l *loader) addNode(n *v1.Node, at *field.Path) {
	group := l.groupLabel.Of(n)
	if group == "" {
		l.setup.Nodes = append(l.setup.Nodes, n)
		return
	}
	position, known := l.position[group]
	if !known && l.groupLabel.Zonal() {
		position, known = l.position[nodegroupset.InZone(group, nodegroupset.ZoneOf(n))]
	}
	if !known {
		l.add(field.Invalid(at, n.Name, fmt.Sprintf("its label %s names node group %q, which does not exist", l.spec.GroupLabel, group)))
		return
	}
	g := &l.setup.Cloud.Groups[position]
	g.Nodes = append(g.Nodes, n)
	n.Status.NodeInfo.KubeletVersion = cmp.Or(n.Status.NodeInfo.KubeletVersion, kubeletVersion)
}

// register adds what every real node has: its own hostname label, and a condition Ready.
func register(n *v1.Node) {
	n.ManagedFields = nil
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	n.Labels[v1.LabelHostname] = n.Name
	if n.Status.Allocatable == nil {
		n.Status.Allocatable = n.Status.Capacity
	}
	if !slices.ContainsFunc(n.Status.Conditions, func(c v1.NodeCondition) bool { return c.Type == v1.NodeReady }) {
		n.Status.Conditions = append(n.Status.Conditions, v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionTrue})
	}
}

func (l *loader) readPods() error {
	nodes, names, lost := sets.New[string](), sets.New[identity](), tally{}
	l.setup.eachNode(func(n *v1.Node) { nodes.Insert(n.Name) })
	if l.shared {
		l.stayAlike()
	}
	for i := range l.spec.PodsFrom {
		from, at := &l.spec.PodsFrom[i], specPath.Child("podsFrom").Index(i)
		place := fileField(&from.FileSource, at)
		if err := read(l, &from.FileSource, at, func(p *v1.Pod) {
			if !l.takeOver(p, from.Unbind) {
				return
			}
			name, on := orDefault(p.Namespace)+"/"+p.Name, p.Spec.NodeName
			if from.Unbind {
				on = ""
			}
			id := identityOf(name)
			switch {
			case names.Has(id):
				l.add(field.Duplicate(place, name))
			case on != "" && len(nodes) == 0:
				l.add(field.Invalid(place, name, fmt.Sprintf("is bound to node %s, but no file has nodes; unbind: true makes it pending", on)))
			case on != "" && !nodes.Has(on):
				lost.add(on)
				return
			}
			names.Insert(id)
			if from.Unbind || !l.setup.alike.add(p, l.interned) {
				l.setup.Pods = append(l.setup.Pods, ownPart(p, from.Unbind, l.interned))
			}
		}); err != nil {
			return err
		}
	}
	l.note(lostPodsNote(lost))
	if n := len(l.setup.Pods) + l.setup.alike.number; n > MaxPods {
		l.add(field.TooMany(specPath.Child("podsFrom"), n, MaxPods))
	}
	return nil
}

// takeOver reports whether a pod of a file is part of the scenario.
func (l *loader) takeOver(p *v1.Pod, unbind bool) bool {
	if p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
		return false
	}
	comesWithNode := template.RunsOnEveryNode(p)
	if comesWithNode {
		l.daemons.Add(p)
	}
	return !comesWithNode || !unbind
}

// checkNodes reports more nodes than the cloud can have.
func (l *loader) checkNodes() {
	total := 0
	for _, g := range l.setup.Cloud.Groups {
		total += g.Size
	}
	if total > fake.MaxNodes {
		l.add(field.Invalid(specPath.Child("nodeGroups"), total, fmt.Sprintf("the nodes of all groups must not exceed %d", fake.MaxNodes)))
	}
}

func (l *loader) readDaemonSets() error {
	names := sets.New[string]()
	for i := range l.spec.DaemonSets {
		set := daemonSet(&l.spec.DaemonSets[i])
		names.Insert(set.Namespace + "/" + set.Name)
		l.setup.DaemonSets = append(l.setup.DaemonSets, set)
	}
	for i := range l.spec.DaemonSetsFrom {
		at := specPath.Child("daemonSetsFrom").Index(i)
		err := read(l, &l.spec.DaemonSetsFrom[i], at, func(set *appsv1.DaemonSet) {
			name := orDefault(set.Namespace) + "/" + set.Name
			if names.Has(name) {
				l.add(field.Duplicate(at.Child("file"), name))
			}
			names.Insert(name)
			l.setup.DaemonSets = append(l.setup.DaemonSets, set)
		})
		if err != nil {
			return err
		}
	}
	l.deriveDaemonSets(names)
	return nil
}

// deriveDaemonSets derives the daemon sets that no file has from their pods. If a snapshot is read,
// its templates show more exactly which pods come with a node.
func (l *loader) deriveDaemonSets(known sets.Set[string]) {
	if slices.ContainsFunc(l.spec.NodeGroupsFrom, func(from v1alpha1.NodeGroupsSource) bool { return from.Snapshot != "" }) ||
		slices.ContainsFunc(l.spec.PodsFrom, func(from v1alpha1.PodsSource) bool { return from.Snapshot != "" }) {
		return
	}
	derived := l.daemons.DaemonSets(known.Has)
	if len(derived) == 0 {
		return
	}
	var names []string
	for _, set := range derived {
		names = append(names, set.Namespace+"/"+set.Name)
	}
	l.setup.DerivedDaemonSets = sets.New(names...)
	l.setup.DaemonSets = append(l.setup.DaemonSets, derived...)
	l.note(fmt.Sprintf("the files have no DaemonSet %s: it is derived from its pods, without its own node affinity; add "+
		"the output of kubectl get daemonsets -A to daemonSetsFrom", few(names)))
}

// known are the names that quotas, faults and expectations may use.
func (l *loader) known() known {
	k := known{groups: sets.KeySet(l.position), zones: sets.New[string](), workloads: sets.New[string](),
		values: map[string]sets.Set[string]{}}
	for _, g := range l.setup.Cloud.Groups {
		k.zones.Insert(g.ZoneNames()...)
		for key, value := range g.Template.Node.Labels {
			if k.values[key] == nil {
				k.values[key] = sets.New[string]()
			}
			k.values[key].Insert(value)
		}
	}
	k.subsets = map[string]sets.Set[string]{}
	for _, s := range l.setup.Spreads {
		for _, name := range []string{s.Object.Name, s.Object.Namespace + "/" + s.Object.Name} {
			k.subsets[name] = sets.New[string]()
			for _, subset := range s.Object.Spec.Subsets {
				k.subsets[name].Insert(subset.Name)
			}
		}
	}
	for _, w := range l.setup.Workloads {
		k.workloads.Insert(w.Name)
	}
	return k
}
