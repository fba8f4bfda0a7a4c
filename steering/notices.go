package steering

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// noticeGrace is how long the scheduler may take to use nodes that have come.
const noticeGrace = 30 * time.Second

// Notice says what is done about a pod that waits for a node, for a condition of the pod.
type Notice struct {
	Namespace, Name string
	UID             types.UID
	// Acting is true while a node is on its way, and Failed if a scale-up for the pod has failed and
	// another one is tried.
	Acting, Failed bool
	// Message is a sentence.
	Message string
}

// published is what was said about pods, and which warnings were given.
type published struct {
	awaited map[types.UID]*awaited
	warned  map[string]bool
}

// awaited is a pod that Cluster Autoscaler has asked nodes for.
type awaited struct {
	Notice                 // the last
	groups map[string]bool // that were increased for it
	loop   int             // in which it was last asked for
	at     time.Time       // and when
	idle   time.Time       // since when none of the groups has nodes on their way; zero if one has
}

// notice gives a notice about a pod, unless it is what was last said.
func (s *State) notice(a *awaited, acting, failed bool, message string) {
	if a.Message != "" && a.Acting == acting && a.Failed == failed {
		return
	}
	a.Acting, a.Failed, a.Message = acting, failed, message
	s.out.Notices = append(s.out.Notices, a.Notice)
}

// await returns what is known of a pod that is asked for now; nil if it is none of the cluster.
func (s *State) await(pod *v1.Pod) *awaited {
	if pod.UID == "" || pod.Annotations[consumesRequest] != "" {
		return nil
	}
	a := s.pods.awaited[pod.UID]
	if a == nil {
		a = &awaited{Notice: Notice{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}, groups: map[string]bool{}}
		s.pods.awaited[pod.UID] = a
	}
	a.loop, a.at, a.idle = s.caller.loop, s.now, time.Time{}
	return a
}

// noticeQuestion notes which pods are asked for. If no group is to grow, it says so to those that no
// group helps, since each is left alone and has nothing on its way.
func (c *choice) noticeQuestion(p *pick, why string) {
	if !c.s.o.NoticePods {
		return
	}
	helped := map[int]bool{}
	for _, name := range c.names {
		open := !c.s.shut(name) || c.counted(name).inFlight > 0
		for _, i := range c.options[name].Pods {
			helped[i] = helped[i] || open
		}
	}
	for _, i := range slices.Sorted(maps.Keys(helped)) {
		if a := c.s.await(c.request.Pods[i]); a != nil && p == nil && !helped[i] {
			c.s.notice(a, false, false, why)
		}
	}
}

// noticeAnswer says to the pods for which a group was increased that nodes are on their way, or that
// the cloud has refused them. An increase that was not forwarded says nothing.
func (s *State) noticeAnswer(v grant, granted int, err error) {
	if !s.o.NoticePods || v.about == nil || err == nil && granted == 0 || err != nil && !v.refuse && !cloudprovider.Refused(err) ||
		errors.Is(err, ErrNotLeader) {
		return
	}
	id, name := v.group.ID, s.named(v.group.ID)
	for _, i := range v.about.served(id) {
		a := s.await(v.about.from.request.Pods[i])
		switch {
		case a == nil, err != nil && a.Message != "" && !a.Acting: // it stays given up
		case err != nil:
			s.notice(a, true, true, fmt.Sprintf("%s cannot grow: %v", name, err))
		default:
			a.groups[id] = true
			s.notice(a, true, false, name+" grows")
		}
	}
}

// named is a group with its set, of which any member may bring the node.
func (s *State) named(id string) string {
	if s.hasPeers(id) {
		return fmt.Sprintf("node group %s of the set of %s", id, s.set(id))
	}
	return "node group " + id
}

// served are the pods of the question that get nodes when a group grows, by index. Those of its split
// get theirs by and by.
func (p *pick) served(id string) []int {
	pods := p.from.options[id].Pods
	if p.split == nil || !slices.ContainsFunc(p.split.members, func(m member) bool { return m.Name == id }) {
		return pods
	}
	pods = slices.Clone(pods)
	for i := range p.split.members {
		pods = append(pods, p.split.members[i].option.Pods...)
	}
	slices.Sort(pods)
	return slices.Compact(pods)
}

// noticeFailure says to the pods that wait for a group that it has failed.
func (s *State) noticeFailure(id, why string) {
	name := ""
	for _, a := range s.inOrder() {
		if a.Acting && a.groups[id] {
			name = cmp.Or(name, s.named(id))
			delete(a.groups, id)
			s.notice(a, true, true, fmt.Sprintf("%s has failed: %s", name, why))
		}
	}
}

// noticeLoop looks, when a loop has ended, at the pods that it did not ask for: they have room on nodes
// that are on their way, or nobody does anything about them any more.
func (s *State) noticeLoop() {
	if len(s.pods.awaited) == 0 {
		return
	}
	at, coming := s.observe(), map[string]bool{}
	for name, g := range s.view.Groups {
		coming[name] = at.count(g, s.state(name)).inFlight > 0
	}
	for _, a := range s.inOrder() {
		if a.loop == s.caller.loop {
			continue
		}
		waits := false
		for id := range a.groups {
			waits = waits || coming[id]
		}
		if watchSince(&a.idle, !waits, s.now); waits || s.now.Sub(a.idle) < noticeGrace {
			continue
		}
		if a.Acting {
			s.notice(a, false, false, "no node is on its way any more, and Cluster Autoscaler asks for none")
		}
		if s.now.Sub(a.at) >= s.o.MaxNodeProvisionTime || len(a.groups) > 0 {
			delete(s.pods.awaited, a.UID)
		}
	}
}

// inOrder are the pods by namespace and name.
func (s *State) inOrder() []*awaited {
	return slices.SortedFunc(maps.Values(s.pods.awaited), func(a, b *awaited) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
}
