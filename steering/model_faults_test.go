package steering

import (
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/zonalshift"
)

// deadline is the start-up deadline of worlds that have one.
const deadline = 2 * time.Minute

// trouble is how nodes fail to come.
type trouble int

const (
	notRegistered  trouble = iota // there are instances without a node
	notCreated                    // there are no instances
	notTakenBack                  // nor does the cloud take the order back at first
	failedToCreate                // the cloud says so
	troubles
)

func (h trouble) String() string {
	return [...]string{"have instances and never register", "have no instances", "have no instances, and are not taken back at first",
		"cannot be created"}[h]
}

// faultsOfTheCloud are those that need no call: nodes on their way never come, and a zone is shifted away.
func (w *world) faultsOfTheCloud(fault func(string, func(*world))) {
	if w.ca.phase != refreshing || w.order != nil {
		return
	}
	waiting, last := 0, 0
	for i := range w.groups {
		if w.ready[i] < w.target[i]-w.never[i] {
			waiting, last = waiting+1, i
		}
	}
	if waiting == 1 { // time passes, which others would not survive
		for how := range troubles {
			fault(fmt.Sprintf("the nodes of %s %s", names[last], how), func(w *world) { w.stop(last, how) })
		}
	}
	if last := w.groups - 1; w.shifted < 0 {
		fault("zone "+names[last]+" is shifted away", func(w *world) {
			w.apart[last] = true
			w.shift(last)
		})
	}
}

// stop has nodes on their way never come, and so much time pass that somebody gives them up.
func (w *world) stop(i int, how trouble) {
	w.never[i], w.how[i], w.apart[i], w.ca.quiet = w.target[i]-w.ready[i], how, true, 0
	switch {
	case how == failedToCreate:
	case w.kind.deadline:
		w.pass(deadline + time.Minute)
	default:
		w.pass(cloudprovider.DefaultMaxNodeProvisionTime + time.Minute)
	}
}

// takeBack has the sidecar take back what it finds.
func (w *world) takeBack(e Event) {
	for _, t := range w.step(e).TakeBacks {
		taken, i := TakenBack{TakeBack: t}, int(t.Group.ID[0]-'a')
		if w.how[i] == notTakenBack {
			taken.DecreaseErr = errors.New("not now")
		} else {
			w.gone(i, len(t.Nodes)+t.Missing)
		}
		w.step(taken)
	}
}

// gone lowers the target size by nodes that have not come.
func (w *world) gone(i, nodes int) {
	w.target[i] -= nodes
	w.never[i] = max(0, w.never[i]-nodes)
}

// giveUp has Cluster Autoscaler take back what has not come in its provision time. It ends its loop then.
func (w *world) giveUp() bool {
	for i := range w.groups {
		n := w.never[i]
		if n == 0 || w.kind.deadline {
			continue
		}
		switch w.how[i] {
		case notRegistered:
			var nodes []*v1.Node
			for k := w.target[i] - n; k < w.target[i]; k++ {
				nodes = append(nodes, cloudprovider.FakeNode(instance(i, k), cloudprovider.FakeNodeUnregistered))
			}
			w.gone(i, n)
			w.step(NodesDeleted{names[i], nodes, w.target[i], nil})
		case notTakenBack:
			w.how[i] = notCreated
			w.observe()
			cut := w.step(Decrease{names[i], -n, w.target[i], w.instances(i)})
			w.gone(i, -cut.Nodes)
			w.step(Decreased{names[i], cut.Nodes, cut.Reason, nil})
		default:
			continue
		}
		w.ca.counts[i], w.ca.backoff[i] = false, w.now.Add(5*time.Minute)
		w.pass(10 * time.Second)
		return true
	}
	return false
}

// skip is a loop for which the cloud cannot be read.
func (w *world) skip() {
	w.step(Called{w.connection(), RefreshCall, ""})
	w.wake(false)
	w.step(LoopSkipped{w.now})
	w.pass(10 * time.Second)
}

// shift has users shift away the zone of a group.
func (w *world) shift(i int) {
	w.shifted, w.ca.quiet = i, 0
	w.observe()
	w.step(Shift{Source: "users", Marks: []zonalshift.Mark{{Domain: zonalshift.Zone(names[i]), Since: epoch}}})
}

// configure has the configuration read anew: first it cannot be read, then it is what it was.
func (w *world) configure() {
	w.step(Declare{Err: errors.New("not readable")})
	w.step(ChooseBy{Err: errors.New("not readable")})
	w.step(Declare{Policies: w.policies()})
	w.step(ChooseBy{})
}
