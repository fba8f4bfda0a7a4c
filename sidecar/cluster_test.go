package sidecar_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/internal/autoscaler/removal"
	"github.com/evenkeel/evenkeel/predicates"
)

// What Cluster Autoscaler takes where its options say nothing else, and what one of its loops takes: all
// calls of a loop have one time unless a fault delays them.
const (
	scanInterval = 10 * time.Second
	callTimeout  = 5 * time.Second
	loopTime     = 100 * time.Millisecond
)

// batch is a set of pods that appear together.
type batch struct {
	At   time.Duration // after the start
	Pods []*v1.Pod
	Life time.Duration // after which the pods are gone, bound or not; 0 means never
	// Request makes the batch a ProvisioningRequest of this name, of the class
	// best-effort-atomic-scale-up: Cluster Autoscaler asks for room for all of them or for none,
	// and the pods themselves appear when it is provisioned.
	Request string
}

// caCall is one call of Cluster Autoscaler.
type caCall struct {
	autoscaler.Call
	At  time.Time
	Err error // as Cluster Autoscaler sees it
}

// callFault is a fault of a call. The zero value has no effect. A cloud that waits on a
// clocktesting.FakeClock (a fault of calls with a Delay) would wait forever: use a real clock inside a
// synctest bubble.
type callFault struct {
	Unsent bool // the call never arrives; Cluster Autoscaler sees Unavailable
	Lost   bool // the call takes effect; Cluster Autoscaler waits for its deadline and sees DeadlineExceeded
	Crash  bool // Cluster Autoscaler ends after the call, and restarts with the next loop
}

// clusterConfig describes a cluster.
type clusterConfig struct {
	clock   clock.Clock // advanced by its Sleep
	cloud   *fake.Cloud
	connect func(process int) autoscaler.Connection // when a process of Cluster Autoscaler starts; the first is number 1
	batches []batch
	seed    uint64
	fault   func(caCall) callFault // called before every call of Cluster Autoscaler, in their order; may be nil
	ca      autoscaler.Options
	// firstFit lets the scheduler fill nodes one by one; by default it takes the one with the highest
	// score, as kube-scheduler does.
	firstFit bool
	// bindDelay is how long a node must be ready before the scheduler uses it; Cluster Autoscaler
	// sees it at once.
	bindDelay time.Duration
}

// cluster is a cluster with Cluster Autoscaler: pods come in batches, a scheduler binds them, nodes boot
// in a cloud in memory, and one loop runs after the other. It is the World of package autoscaler.
type cluster struct {
	clusterConfig
	t         testing.TB
	start     time.Time
	atStart   map[string]int // sizes
	scheduler *predicates.Scheduler

	coming   []batch // by time
	pods     []*pod  // that have appeared, in order
	claims   []claim // not provisioned yet
	deleting map[string]bool
	nodes    []*v1.Node // as last listed, in the order of the cloud

	*process
	processes int
	changes   []caCall // the calls that change the size of a group, or were to
	counters  counters
	grew      bool // in this loop
	tried     bool // a ProvisioningRequest in this loop
}

// process is a process of Cluster Autoscaler.
type process struct {
	*autoscaler.Autoscaler
	ended bool
}

// pod is a pod and where it runs.
type pod struct {
	object *v1.Pod // never changed
	node   string  // empty: pending
	ends   time.Time
}

// claim is a ProvisioningRequest and how long its pods live.
type claim struct {
	*autoscaler.Request
	life time.Duration
}

// newCluster makes a cluster and starts a process of Cluster Autoscaler in it. No loop runs yet.
func newCluster(t testing.TB, config clusterConfig) *cluster {
	t.Helper()
	c := &cluster{
		clusterConfig: config, t: t, start: config.clock.Now(), atStart: map[string]int{},
		coming: slices.Clone(config.batches), deleting: map[string]bool{},
	}
	slices.SortStableFunc(c.coming, func(x, y batch) int { return cmp.Compare(x.At, y.At) })
	checker, err := predicates.New(context.Background(), predicates.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.ca.Checker, c.scheduler = checker, checker.Scheduler()
	for _, g := range c.State().Groups {
		c.atStart[g.ID] = g.Size
	}
	c.Restart()
	return c
}

// Restart ends the process of Cluster Autoscaler, with all its state, and starts another, which takes
// back the deletions of the last.
func (c *cluster) Restart() {
	c.t.Helper()
	if c.process != nil {
		c.ended = true
	}
	c.processes++
	p := &process{}
	var err error
	p.Autoscaler, err = autoscaler.New(autoscaler.Config{
		Clock: c.clock, Cloud: c.cloud, Connection: c.faulty(p, c.connect(c.processes)), World: c, Unreported: true,
		Seed: c.seed + uint64(c.processes-1), Options: c.ca, // not negative
	})
	if err != nil {
		c.t.Fatal(err)
	}
	clear(c.deleting)
	c.process = p
}

// errEnded is what a process sees that has ended: it goes on to the end of its loop, to no effect.
var errEnded = errors.New("the process has ended")

// faulty puts the faults between a process and what it is connected to.
func (c *cluster) faulty(p *process, connection autoscaler.Connection) autoscaler.Connection {
	inner := connection.Intercept
	connection.Intercept = func(ctx context.Context, call autoscaler.Call, do func(context.Context) error) error {
		if p.ended {
			return errEnded
		}
		this := caCall{Call: call, At: c.clock.Now()}
		var hit callFault
		if c.fault != nil {
			hit = c.fault(this)
		}
		switch {
		case hit.Unsent:
			this.Err = fmt.Errorf("%s: %w", call.Method, cloudprovider.ErrUnavailable)
		case inner != nil:
			this.Err = inner(ctx, call, do)
		default:
			this.Err = do(ctx)
		}
		if hit.Lost {
			c.clock.Sleep(callTimeout)
			this.Err = context.DeadlineExceeded
		}
		if p.ended = p.ended || hit.Crash; p.ended {
			this.Err = errEnded
		}
		c.note(this)
		return this.Err
	}
	return connection
}

// note keeps what a test may ask for of a call.
func (c *cluster) note(call caCall) {
	switch call.Method {
	case autoscaler.MethodBestOptions:
		c.counters.Asked++
	case fake.MethodIncreaseSize:
		c.grew = call.Err == nil
		c.changes = append(c.changes, call)
	case fake.MethodDecreaseTargetSize, fake.MethodDeleteNodes:
		c.changes = append(c.changes, call)
	default:
	}
}

// String returns the call in one line.
func (c caCall) String() string {
	return fmt.Sprintf("%s %s %s %+d %v %v", c.At.Format("15:04:05.0"), c.Method, c.Group, c.Delta, c.Nodes, c.Err)
}

// saw counts the calls of a method that Cluster Autoscaler took to have succeeded.
func (c *cluster) saw(method string) (n int) {
	for _, call := range c.changes {
		if call.Method == method && call.Err == nil {
			n++
		}
	}
	return n
}

// Run runs loops until the given time since the start.
func (c *cluster) Run(until time.Duration) {
	c.t.Helper()
	for c.clock.Now().Before(c.start.Add(until)) {
		c.Step()
	}
}

// Settle runs loops until nothing more can happen, or until the given time: no future pods, none
// pending unless all groups are full, nothing under way, all ordered nodes ready.
func (c *cluster) Settle(until time.Duration) clusterState {
	c.t.Helper()
	state := c.State()
	for c.clock.Now().Before(c.start.Add(until)) {
		c.Step()
		if state = c.State(); len(c.coming)+len(c.claims) == 0 && state.settled() && state.ready() == len(c.nodes) {
			break
		}
	}
	return state
}

// Step lets the cluster move on, runs one loop and the wait after it: none after a loop that changed
// something, else the scan interval, cut short by pods that appear.
func (c *cluster) Step() {
	c.t.Helper()
	if c.ended {
		c.Restart()
	}
	c.arrive()
	c.schedule()
	c.counters.Loops++
	c.grew, c.tried = false, false
	leaving := len(c.deleting)
	if _, err := c.Loop(); err != nil {
		c.t.Fatal(err)
	}
	c.clock.Sleep(loopTime)
	if c.grew && !c.ended {
		c.counters.Increases++
		return
	}
	if c.tried || len(c.deleting) > leaving {
		return
	}
	pause := cmp.Or(c.ca.ScanInterval, scanInterval)
	for _, b := range c.coming {
		if b.Request == "" {
			pause = min(pause, c.start.Add(b.At).Sub(c.clock.Now()))
		}
	}
	if pause > 0 {
		c.clock.Sleep(pause)
	}
}

// arrive adds the pods that are due, and removes those whose life is over.
func (c *cluster) arrive() {
	now := c.clock.Now()
	c.pods = slices.DeleteFunc(c.pods, func(p *pod) bool { return !p.ends.IsZero() && !p.ends.After(now) })
	for len(c.coming) > 0 && !c.start.Add(c.coming[0].At).After(now) {
		b := c.coming[0]
		c.coming = c.coming[1:]
		if b.Request == "" {
			c.appear(b.Pods, b.Life)
			continue
		}
		c.claims = append(c.claims, claim{autoscaler.NewRequest(b.Request, autoscaler.AtomicClass, b.Pods, now), b.Life})
	}
}

// appear adds pods to the cluster.
func (c *cluster) appear(pods []*v1.Pod, life time.Duration) {
	now, ends := c.clock.Now(), time.Time{}
	if life > 0 {
		ends = now.Add(life)
	}
	for _, object := range pods {
		object = object.DeepCopy()
		object.CreationTimestamp = metav1.Time{Time: now}
		c.pods = append(c.pods, &pod{object: object, ends: ends})
	}
}

// schedule is the API server and the scheduler: nodes carry Cluster Autoscaler's taint, pods of nodes that
// are gone become pending again, and what fits on ready nodes is bound.
func (c *cluster) schedule() {
	c.t.Helper()
	now := c.clock.Now()
	c.nodes = c.cloud.SharedNodes()
	exists := make(map[string]bool, len(c.nodes))
	var usable []*v1.Node
	for i, node := range c.nodes {
		if c.deleting[node.Name] {
			marked := *node
			marked.Spec.Taints = append(slices.Clip(node.Spec.Taints),
				v1.Taint{Key: "ToBeDeletedByClusterAutoscaler", Effect: v1.TaintEffectNoSchedule})
			c.nodes[i] = &marked
		}
		exists[node.Name] = true
		if since, ready := readySince(node); ready && !since.Add(c.bindDelay).After(now) {
			usable = append(usable, c.nodes[i])
		}
	}
	for _, p := range c.pods {
		if p.node != "" && !exists[p.node] {
			anew := *p.object
			anew.CreationTimestamp = metav1.Time{Time: now}
			p.node, p.object = "", &anew
		}
	}
	pending := c.pending()
	if len(pending) == 0 || len(usable) == 0 {
		return
	}
	at, err := c.bind(c.withPods(usable), objects(pending))
	if err != nil {
		c.t.Fatal(err)
	}
	for i, node := range at {
		if node >= 0 {
			pending[i].node = usable[node].Name
		}
	}
}

// bind returns the position of each pod's node, -1 for none.
func (c *cluster) bind(nodes []predicates.Node, pods []*v1.Pod) ([]int, error) {
	if !c.firstFit {
		return c.scheduler.Bind(nodes, nil, pods)
	}
	at, open := make([]int, len(pods)), c.ca.Checker.Cluster(nodes)
	for i, p := range pods {
		placed, err := open.Place(p, 1, 0, len(nodes))
		if err != nil {
			return nil, err
		}
		if at[i] = -1; len(placed) > 0 {
			at[i] = placed[0].First
		}
	}
	return at, nil
}

// readySince says whether a node is ready, and since when.
func readySince(node *v1.Node) (since time.Time, ready bool) {
	for _, condition := range node.Status.Conditions {
		if condition.Type == v1.NodeReady {
			return condition.LastTransitionTime.Time, condition.Status == v1.ConditionTrue
		}
	}
	return time.Time{}, false
}

// withPods puts together nodes and the pods bound to them.
func (c *cluster) withPods(nodes []*v1.Node) []predicates.Node {
	pods, out := map[string][]*v1.Pod{}, make([]predicates.Node, len(nodes))
	for _, p := range c.pods {
		pods[p.node] = append(pods[p.node], p.object)
	}
	for i, node := range nodes {
		out[i] = predicates.Node{Node: node, Pods: pods[node.Name]}
	}
	return out
}

func (c *cluster) pending() []*pod {
	return slices.DeleteFunc(slices.Clone(c.pods), func(p *pod) bool { return p.node != "" })
}

func objects(pods []*pod) []*v1.Pod {
	out := make([]*v1.Pod, len(pods))
	for i, p := range pods {
		out[i] = p.object
	}
	return out
}

// shown are the pods as an API server shows them, which nobody changes.
func (c *cluster) shown() []*v1.Pod {
	out := objects(c.pods)
	for i, p := range c.pods {
		if p.node != "" {
			bound := *p.object
			bound.Spec.NodeName = p.node
			out[i] = &bound
		}
	}
	return out
}

// Nodes implements autoscaler.World.
func (c *cluster) Nodes() []predicates.Node { return c.withPods(c.nodes) }

// Pending implements autoscaler.World.
func (c *cluster) Pending() []*v1.Pod { return objects(c.pending()) }

// Budgets implements autoscaler.World: there are none.
func (*cluster) Budgets() []removal.Budget { return nil }

// Evict implements autoscaler.World: only empty nodes are deleted.
func (*cluster) Evict(string) string { return "" }

// SetDeleting implements autoscaler.World. It shows when the nodes are listed next, as in a cache.
func (c *cluster) SetDeleting(node string, deleting bool) {
	if deleting {
		c.deleting[node] = true
	} else {
		delete(c.deleting, node)
	}
}

// Requests implements autoscaler.Requests.
func (c *cluster) Requests() []*autoscaler.Request {
	var out []*autoscaler.Request
	for _, claim := range c.claims {
		out = append(out, claim.Request)
	}
	return out
}

// Booked implements autoscaler.Requests: the pods of provisioned ones that do not run yet.
func (c *cluster) Booked() []*v1.Pod {
	return slices.DeleteFunc(c.Pending(), func(p *v1.Pod) bool { return p.Annotations[autoscaler.RequestAnnotation] == "" })
}

// Tried implements autoscaler.Requests: the pods of a provisioned one appear.
func (c *cluster) Tried(r *autoscaler.Request, provisioned bool) {
	c.tried = true
	if !provisioned || c.ended {
		return
	}
	at := slices.IndexFunc(c.claims, func(c claim) bool { return c.Request == r })
	c.appear(r.Pods, c.claims[at].life)
	c.claims = slices.Delete(c.claims, at, at+1)
}

// counters count since the start.
type counters struct {
	Loops     int // of Cluster Autoscaler
	Increases int // loops that scaled up: one plan each
	Asked     int // BestOptions
}

// clusterState is the current state of a cluster.
type clusterState struct {
	counters
	Groups   []groupState // in the order of the cloud
	Pending  int          // pods
	Full     bool         // whether no group has room
	UnderWay bool         // whether Cluster Autoscaler waits for what it has ordered
}

// groupState is one node group.
type groupState struct {
	ID      string
	Size    int // target size
	Ordered int // how much the target size is above that at the start
	Ready   int // registered and ready nodes
}

// Sizes are the target sizes in the order of the cloud.
func (s clusterState) Sizes() (out []int) {
	for _, g := range s.Groups {
		out = append(out, g.Size)
	}
	return out
}

// Ordered returns how many more nodes exist or are ordered than at the start.
func (s clusterState) Ordered() (n int) {
	for _, g := range s.Groups {
		n += g.Ordered
	}
	return n
}

func (s clusterState) ready() (n int) {
	for _, g := range s.Groups {
		n += g.Ready
	}
	return n
}

// settled reports whether no pod waits for a node that it could have, and all nodes are ready.
func (s clusterState) settled() bool {
	return !s.UnderWay && (s.Pending == 0 || s.Full) && s.ready() == total(s.Sizes())
}

// State returns the current state.
func (c *cluster) State() clusterState {
	c.t.Helper()
	out := clusterState{counters: c.counters, Pending: len(c.pending()), Full: true}
	if c.process != nil {
		at, waits := c.Next()
		out.UnderWay = c.ended || waits && !at.After(c.clock.Now())
	}
	groups, err := c.cloud.NodeGroups(context.Background())
	if err != nil {
		c.t.Fatal(err)
	}
	position := map[string]int{}
	for i, g := range groups {
		size := c.cloud.Target(g.ID)
		position[g.ID], out.Full = i, out.Full && size >= g.MaxSize
		out.Groups = append(out.Groups, groupState{ID: g.ID, Size: size, Ordered: size - c.atStart[g.ID]})
	}
	for _, node := range c.cloud.SharedNodes() {
		id, ok, err := c.cloud.NodeGroupForNode(context.Background(), node)
		if err != nil {
			c.t.Fatal(err)
		}
		if _, ready := readySince(node); ok && ready {
			out.Groups[position[id]].Ready++
		}
	}
	return out
}
