package steering

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// most is how many groups a world of the model checker has at most.
const most = 3

var (
	names     = [most]string{"a", "b", "c"}
	templates = [most]*v1.Node{machineIn("a"), machineIn("b"), machineIn("c")}
	epoch     = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
)

// machineIn is a node with room for one pod.
func machineIn(zone string) *v1.Node {
	resources := v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("16Gi"),
		v1.ResourcePods: resource.MustParse("110")}
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1.LabelTopologyZone: zone}},
		Status: v1.NodeStatus{Capacity: resources, Allocatable: resources}}
}

// phase is what Cluster Autoscaler calls next.
type phase int

const (
	beginning phase = iota // the GPU label, as a new process does
	refreshing
	asking
	increasing
)

// An autoscaler is a process of Cluster Autoscaler 1.36: what it knows, and where in its loop it is.
type autoscaler struct {
	process int
	phase   phase
	counts  [most]bool      // holds a request for the group, so that it counts what is on its way
	backoff [most]time.Time // until when it leaves the group alone by itself
	options [most]int       // nodes in the options of the question
	first   int             // pod of the question
	chosen  int             // group to increase
	quiet   int             // loops without an increase in a row
}

// An order that the cloud has not ended yet.
type running struct {
	group, nodes int
}

// A world has a state, a cloud of groups of equal nodes, and pods of which each needs a node.
type world struct {
	state   *State
	journal []byte
	life    int  // of the sidecar
	fresh   bool // its state has not seen journal and cloud yet
	now     time.Time

	groups  int
	initial [most]int
	max     [most]int
	pods    int
	target  [most]int
	ready   [most]int
	created [most][8]time.Time
	order   *running
	// never are how many nodes of a group will not come, and how they fail to.
	never [most]int
	how   [most]trouble
	// shifted is the group whose zone is shifted away, -1 for none.
	shifted int
	// apart are groups that take no part in the split any more: the cloud has refused them, or
	// Cluster Autoscaler has backed them off by itself.
	apart [most]bool

	ca     autoscaler
	faults int // that may still happen
	kind   worldKind
	patch  func(*world)   // makes the state a variant after every event; nil for none
	seen   map[string]int // counts events of all worlds that come of this one, by their type

	recording bool
	recorded  []*Recorded // in the life of the sidecar
}

// A worldKind is what differs between worlds for good.
type worldKind struct {
	inferred bool // which nodes are registered is not known from the API server
	released bool // Cluster Autoscaler is of a release before 1.36
	deadline bool // the groups are a declared set with a start-up deadline
}

func newWorld(groups, pods, faults int, initial [most]int, patch func(*world)) *world {
	w := &world{now: epoch, groups: groups, initial: initial, target: initial, ready: initial, pods: pods, faults: faults, patch: patch,
		shifted: -1, seen: map[string]int{}}
	for i := range w.max {
		w.max[i] = 8
	}
	w.restart()
	return w
}

// fork returns a world in the same state.
func (w *world) fork() *world {
	out := *w
	out.state = w.state.Clone()
	if w.order != nil {
		order := *w.order
		out.order = &order
	}
	return &out
}

// print is the same for worlds of which the same can become.
func (w *world) print() [sha256.Size]byte {
	p := &printer{Hash: sha256.New(), now: w.now, loop: w.state.caller.loop, connection: w.connection()}
	for _, part := range []any{w.target, w.ready, w.created, w.apart, w.never, w.how, w.shifted, w.faults, w.fresh, w.ca.phase, w.ca.counts,
		w.ca.backoff, w.ca.options, w.ca.first, w.ca.chosen, w.ca.quiet, w.order} {
		p.any(part)
	}
	p.print(reflect.ValueOf(w.state))
	if w.fresh || w.faults > 0 { // else nobody reads it any more
		p.text(w.journalPrint())
	}
	return [sha256.Size]byte(p.Sum(nil))
}

// restart replaces the state by that of a new process. An order that is running ends with the old
// one: the cloud has taken it.
func (w *world) restart() {
	if w.order != nil {
		w.target[w.order.group] += w.order.nodes
		w.order = nil
	}
	w.life++
	w.recorded = nil
	w.state, _ = New(fmt.Sprint("life ", w.life), Options{Similarity: nodegroupset.Options{Policies: w.policies()}}) // these options are valid
	w.fresh = true
	w.step(Started{w.state.saved.writer})
}

// policies are the declared sets.
func (w *world) policies() []nodegroupset.SetPolicy {
	if !w.kind.deadline {
		return nil
	}
	portion := nodegroupset.PortionPolicy{Portion: nodegroupset.Portion{Name: "zones", Groups: names[:w.groups]}}
	return []nodegroupset.SetPolicy{{Name: "all", Policy: nodegroupset.Even, Portions: []nodegroupset.PortionPolicy{portion},
		StartupDeadline: deadline}}
}

func (w *world) connection() string { return fmt.Sprint(w.ca.process, "-", w.life) }

// running is how many pods run: each on a node that is ready. The nodes there were from the start
// are taken.
func (w *world) running() int {
	n := -w.total(w.initial)
	for _, ready := range w.ready {
		n += ready
	}
	return min(n, w.pods)
}

func (w *world) total(of [most]int) int {
	n := 0
	for _, size := range of {
		n += size
	}
	return n
}

// pass lets time pass.
func (w *world) pass(d time.Duration) { w.now = w.now.Add(d) }

// step applies an event, and the patch of a variant afterwards.
func (w *world) step(e Event) Answer {
	w.seen[reflect.TypeOf(e).Name()]++
	var line *Recorded
	if w.recording {
		line = Record(w.now, e)
		w.recorded = append(w.recorded, line)
	}
	answer, _ := w.state.Step(w.now, e)
	if line != nil {
		line.Answer = answer
	}
	if w.patch != nil {
		w.patch(w)
	}
	return answer
}

// observe reports which nodes there are.
func (w *world) observe() {
	var nodes []NodeState
	for i := range w.groups {
		for k := range w.ready[i] {
			nodes = append(nodes, NodeState{ProviderID: instance(i, k), Name: instance(i, k), Created: w.created[i][k], Ready: true})
		}
	}
	if !w.kind.inferred {
		w.step(Observe{nodes, true})
		return
	}
	for _, node := range nodes {
		w.step(Saw{node.ProviderID})
	}
}

func instance(group, k int) string { return fmt.Sprint(names[group], k) }

// read reads the cloud.
func (w *world) read() *Cloud {
	cloud := &Cloud{At: w.now, Groups: map[string]*Group{}}
	for i := range w.groups {
		g := &Group{NodeGroup: cloudprovider.NodeGroup{ID: names[i], MaxSize: w.max[i]}, Target: w.target[i],
			Template: cloudprovider.Template{Node: templates[i]}}
		g.Instances = w.instances(i)
		g.Revision = w.state.Revision(g.ID)
		w.takeBack(Failed{g})
		w.takeBack(Overdue{g})
		cloud.Groups[g.ID] = g
	}
	w.takeBack(Late{slices.Collect(maps.Values(cloud.Groups))})
	return cloud
}

// instances are those of a group that the cloud lists.
func (w *world) instances(i int) (out []cloudprovider.Instance) {
	for k := range w.target[i] {
		instance := cloudprovider.Instance{ID: instance(i, k), State: cloudprovider.InstanceRunning}
		if k >= w.target[i]-w.never[i] {
			if w.how[i] == notCreated || w.how[i] == notTakenBack {
				continue
			}
			if w.how[i] == failedToCreate {
				instance.State, instance.Error = cloudprovider.InstanceCreating, &cloudprovider.InstanceError{Code: "OutOfStock", Message: "no machine"}
			}
		}
		out = append(out, instance)
	}
	return out
}

// wake has a new process of the sidecar read the journal and the cloud, as it does at its first
// call.
func (w *world) wake(show bool) {
	if !w.fresh {
		return
	}
	w.fresh = false
	w.step(JournalRead{Text: w.journal})
	if w.shifted >= 0 {
		w.shift(w.shifted)
	}
	if show {
		w.observe()
		w.step(Show{w.read()})
	}
}

// save saves the journal.
func (w *world) save() {
	text, err := w.state.Journal()
	w.journal = text
	w.step(JournalSaved{err})
}

// begin is the first call of a process of Cluster Autoscaler.
func (w *world) begin() {
	w.wake(false)
	w.step(NewProcess{})
	w.save()
	w.ca.phase = refreshing
}

// refresh begins a loop, and works out what Cluster Autoscaler asks for in it.
func (w *world) refresh() {
	w.step(Called{w.connection(), RefreshCall, ""})
	w.step(Released{w.kind.released})
	w.wake(false)
	w.observe()
	w.step(LoopBegins{w.now, w.read()})
	if w.giveUp() {
		return
	}
	counted := 0
	var sizes [most]int
	for i := range w.groups {
		w.step(Called{w.connection(), OtherCall, ""})
		sizes[i] = w.state.Shown(names[i])
		if upcoming := sizes[i] - w.ready[i]; upcoming <= 0 {
			w.ca.counts[i] = false
		} else if w.kind.released || w.ca.counts[i] && !w.ca.backoff[i].After(w.now) {
			counted += upcoming
		}
	}
	w.ca.first = w.running() + counted
	need := w.pods - w.ca.first
	w.ca.options = [most]int{}
	w.ca.phase = refreshing
	for i := range w.groups {
		healthy := w.ca.counts[i] || sizes[i]-w.ready[i] <= 3
		n := min(need, w.max[i]-sizes[i])
		if n > 0 && healthy && !w.ca.backoff[i].After(w.now) {
			w.ca.options[i] = n
			w.ca.phase = asking
		}
	}
	if w.ca.phase == refreshing {
		w.rest()
	}
}

// rest ends a loop without an increase.
func (w *world) rest() {
	w.ca.quiet++
	w.ca.phase = refreshing
	if w.settled() && w.running() < w.pods && w.ca.quiet > quietLoops {
		w.pass(6 * time.Minute) // until a backoff is over
	} else {
		w.pass(10 * time.Second)
	}
}

// settled reports whether nothing is to come.
func (w *world) settled() bool {
	return w.order == nil && w.ready == w.target && w.never == [most]int{}
}

// ask asks the expander, and returns the group answered; -1 for none.
func (w *world) ask(o outcome) int {
	w.wake(true)
	w.observe()
	answer := w.step(Asked{w.question()})
	switch {
	case answer.Save && o == outdated:
		w.step(JournalSaved{ErrOutdated})
		if w.step(Stop{ErrOutdated}).Err != nil {
			w.step(JournalRead{Text: w.journal})
			return -1
		}
	case answer.Save:
		w.save()
	}
	return slices.Index(names[:], answer.Group)
}

// question is what Cluster Autoscaler asks the expander.
func (w *world) question() Question {
	question := Question{Nodes: map[string]*v1.Node{}}
	for p := w.ca.first; p < w.pods; p++ {
		question.Pods = append(question.Pods, &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint(p)),
			CreationTimestamp: metav1.Time{Time: epoch.Add(-time.Minute)}}})
	}
	for i := range w.groups {
		question.Nodes[names[i]] = templates[i]
		if n := w.ca.options[i]; n > 0 {
			option := expander.Offer{Group: names[i], NodeCount: n}
			for p := range n {
				option.Pods = append(option.Pods, p)
			}
			question.Options = append(question.Options, option)
		}
	}
	return question
}

// An outcome is what happens to an increase.
type outcome int

const (
	taken      outcome = iota
	refused            // by the cloud
	lost               // its answer
	unclear            // the cloud's answer, which has taken it
	unclearNot         // the cloud's answer, which has not taken it
	slow               // the cloud
	unsaved            // the journal
	gone               // Cluster Autoscaler, once the journal is written
	crashBefore
	crashAfter
	outcomes // the others of an increase

	outdated // the journal is another process's by now
)

func (o outcome) String() string {
	return [...]string{"", "refused by the cloud", "the answer is lost", "unclear, taken", "unclear, not taken", "slow",
		"the journal is not written", "nobody waits any longer", "the sidecar ends before the order", "the sidecar ends after the order"}[o]
}

// increase has Cluster Autoscaler increase the chosen group.
func (w *world) increase(o outcome) {
	i := w.ca.chosen
	w.step(Called{w.connection(), OtherCall, ""})
	w.wake(true)
	if w.state.Unsaved() {
		w.save()
	}
	granted := w.step(Increase{names[i], w.ca.options[i]})
	err := granted.Err
	if granted.Nodes > 0 {
		var journalErr error
		if o == unsaved {
			journalErr = errors.New("the API server does not answer")
			w.step(JournalSaved{journalErr})
		} else {
			w.save()
		}
		if o == crashBefore {
			w.fail(i)
			return
		}
		if o == gone {
			granted = w.step(Withdraw{})
		} else {
			granted = w.step(Order{journalErr})
		}
		if err = granted.Err; granted.Nodes > 0 {
			err = w.place(i, granted.Nodes, o)
		}
		if o == crashAfter {
			w.fail(i)
			return
		}
	}
	if o == slow {
		w.pass(4 * time.Second)
	}
	err = w.step(Answered{err, o != gone, w.connection()}).Err
	if o == lost || o == gone {
		w.apart[i] = true
		w.ca.backoff[i] = w.now.Add(5 * time.Minute)
		w.pass(5 * time.Second)
		w.ca.phase, w.ca.quiet = refreshing, 0
		return
	}
	w.answered(i, err)
}

// place has the cloud end an order.
func (w *world) place(i, nodes int, o outcome) error {
	end := func(err error) error { return w.step(OrderEnded{names[i], err, w.target[i], nil}).Err }
	switch o {
	case refused:
		w.apart[i] = true
		return end(cloudprovider.ErrOutOfResources)
	case unclearNot:
		w.apart[i] = true
		return end(cloudprovider.ErrUnavailable)
	case slow:
		w.order = &running{group: i, nodes: nodes}
		return nil
	case unclear:
		w.target[i] += nodes
		return end(cloudprovider.ErrUnavailable)
	case crashAfter:
		w.target[i] += nodes
		return nil
	default:
		w.target[i] += nodes
		return end(nil)
	}
}

// end ends the order that is running.
func (w *world) end(o outcome) {
	order := *w.order
	w.order = nil
	var err error
	if o == refused {
		w.apart[order.group] = true
		err = cloudprovider.ErrOutOfResources
	} else {
		w.target[order.group] += order.nodes
	}
	w.step(OrderEnded{names[order.group], err, 0, errors.New("not read")})
	w.ca.quiet = 0
}

// answered is Cluster Autoscaler when it has an answer to its increase.
func (w *world) answered(i int, err error) {
	w.ca.phase, w.ca.quiet = refreshing, 0
	if err != nil {
		w.apart[i] = true
		w.ca.backoff[i] = w.now.Add(5 * time.Minute)
		w.pass(10 * time.Second)
		return
	}
	w.ca.counts[i] = true
	w.step(Called{w.connection(), OptionsCall, names[i]})
	w.step(Called{w.connection(), TemplateCall, names[i]})
	w.pass(200 * time.Millisecond)
}

// fail ends the sidecar in the middle of an increase.
func (w *world) fail(i int) {
	w.restart()
	w.apart[i] = true
	w.ca.backoff[i] = w.now.Add(5 * time.Minute)
	w.ca.phase, w.ca.quiet = refreshing, 0
	w.pass(10 * time.Second)
}

// crash replaces Cluster Autoscaler by a new process.
func (w *world) crash() {
	w.ca = autoscaler{process: w.ca.process + 1}
	w.pass(10 * time.Second)
}

// want is what the sizes have to be at rest: those of one exact split over the groups that take
// part.
func (w *world) want() ([most]int, error) {
	out := w.target
	left := w.pods
	for i := range w.groups {
		if w.apart[i] {
			left -= w.target[i] - w.initial[i]
		}
	}
	request := nodegroupset.SplitRequest{Nodes: int64(left)}
	for i := range w.groups {
		if !w.apart[i] {
			request.Groups = append(request.Groups, nodegroupset.Group{Name: names[i], Size: int64(w.initial[i]), Max: int64(w.max[i])})
		}
	}
	if len(request.Groups) == 0 {
		return out, nil
	}
	result, err := nodegroupset.Split(request)
	if err != nil {
		return out, err
	}
	for _, g := range result.Groups {
		out[slices.Index(names[:], g.Name)] = int(g.NewSize)
	}
	return out, nil
}
