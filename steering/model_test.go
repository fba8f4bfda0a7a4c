package steering

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var deep = flag.Bool("deep", false, "check worlds of three groups and four nodes, and of two faults, instead of smaller ones")

// quietLoops is how many loops in a row without an increase there are at most while something is to
// come, and longest how many without one at the end of which a world has to have come to rest.
const (
	quietLoops = 1
	longest    = 12
)

// A move is something that can happen next.
type move struct {
	name string
	do   func(*world)
}

// moves are all that can happen next: what Cluster Autoscaler calls, with each fault at that point,
// a node that becomes ready, and the end of an order that the cloud takes its time for.
func (w *world) moves() []move {
	var out []move
	add := func(name string, do func(*world)) { out = append(out, move{name, do}) }
	fault := func(name string, do func(*world)) {
		if w.faults > 0 {
			add(name, func(w *world) { w.faults--; do(w) })
		}
	}
	for i := range w.groups {
		// What is asked in the other phases is answered without a look at the nodes.
		if looks := w.ca.phase == refreshing || w.ca.phase == asking; looks && w.ready[i] < w.target[i]-w.never[i] {
			add("a node of "+names[i]+" becomes ready", func(w *world) {
				w.created[i][w.ready[i]] = w.now
				w.ready[i]++
				w.ca.quiet = 0
			})
		}
	}
	if w.order != nil {
		add("the cloud takes the order", func(w *world) { w.end(taken) })
		fault("the cloud refuses the order", func(w *world) { w.end(refused) })
	}
	if !w.settled() && w.ca.quiet > quietLoops && w.ca.phase == refreshing {
		return out // everything comes at last
	}
	fault("Cluster Autoscaler ends", (*world).crash)
	w.faultsOfTheCloud(fault)
	if !w.fresh {
		fault("the sidecar ends", (*world).restart)
		if w.order != nil {
			fault("the sidecar ends, and its order with it", func(w *world) { w.order = nil; w.restart() })
		}
	}
	switch w.ca.phase {
	case beginning:
		add("GPULabel", (*world).begin)
	case refreshing:
		add("Refresh", (*world).refresh)
		fault("Refresh, and the cloud cannot be read", (*world).skip)
		fault("Refresh, with a configuration that is read anew", func(w *world) { w.configure(); w.refresh() })
	case asking:
		add("BestOptions", func(w *world) {
			if w.ca.chosen = w.ask(taken); w.ca.chosen < 0 {
				w.rest()
				return
			}
			w.ca.phase = increasing
		})
		fault("BestOptions, and the journal is another process's", func(w *world) {
			if w.ca.chosen = w.ask(outdated); w.ca.chosen < 0 {
				w.rest()
				return
			}
			w.ca.phase = increasing
		})
		for i, n := range w.ca.options {
			if n > 0 {
				fault("BestOptions, the answer is lost and "+names[i]+" is increased", func(w *world) { w.ask(taken); w.choose(i) })
				fault("BestOptions cannot be read and "+names[i]+" is increased", func(w *world) {
					w.step(Unread{})
					w.save()
					w.choose(i)
				})
				fault("BestOptions, the sidecar ends and "+names[i]+" is increased", func(w *world) { w.ask(taken); w.restart(); w.choose(i) })
			}
		}
	case increasing:
		add("IncreaseSize", func(w *world) { w.increase(taken) })
		for o := refused; o < outcomes; o++ {
			if o == slow && w.order != nil {
				continue
			}
			fault("IncreaseSize, "+o.String(), func(w *world) { w.increase(o) })
		}
	}
	return out
}

// choose has Cluster Autoscaler increase a group by chance, since the answer to its question has
// not come.
func (w *world) choose(i int) {
	w.ca.chosen, w.ca.phase = i, increasing
}

// journalPrint is what the journal says, with ages for times.
func (w *world) journalPrint() string {
	var j journal
	if len(w.journal) > 0 {
		if err := json.Unmarshal(w.journal, &j); err != nil {
			return err.Error()
		}
	}
	p := &printer{Hash: sha256.New(), now: w.now}
	p.print(reflect.ValueOf(&j))
	return string(p.Sum(nil))
}

// any prints a value of the world.
func (p *printer) any(v any) {
	to := reflect.New(reflect.TypeOf(v))
	to.Elem().Set(reflect.ValueOf(v))
	p.print(to.Elem())
}

// wrong says what is wrong with a world; rest reports whether nothing will happen in it any more.
func (w *world) wrong() (rest bool, err error) {
	ordered := w.total(w.target) - w.total(w.initial)
	if w.order != nil {
		ordered += w.order.nodes
	}
	for _, n := range w.never { // others are ordered in their place
		ordered -= n
	}
	if ordered > w.pods {
		return false, fmt.Errorf("%d nodes are ordered for %d pods", ordered, w.pods)
	}
	if w.ca.quiet > longest {
		return false, errors.New("it does not come to rest")
	}
	if !w.settled() || w.running() < w.pods || w.ca.quiet <= quietLoops || w.ca.phase != refreshing {
		return false, nil
	}
	want, err := w.want()
	if err != nil {
		return true, err
	}
	sorted := func(sizes [most]int) []int { slices.Sort(sizes[:]); return sizes[:] }
	if !slices.Equal(sorted(w.target), sorted(want)) {
		return true, fmt.Errorf("sizes %v at rest, want %v", w.target, want)
	}
	for i := range w.groups {
		if size := w.state.Target(names[i]); size != w.target[i] {
			return true, fmt.Errorf("the state takes %s for %d nodes, it has %d", names[i], size, w.target[i])
		}
	}
	return true, nil
}

// A trace is how a world was come to.
type trace struct {
	before *trace
	move   string
}

func (t *trace) String() string {
	var out []string
	for ; t != nil; t = t.before {
		out = append(out, t.move)
	}
	slices.Reverse(out)
	return strings.Join(out, "\n  ")
}

// search visits all worlds that can come of one, breadth first, and returns how many there are and
// the shortest way to one in which something is wrong.
func search(start *world) (visited, rests int, err error) {
	type found struct {
		*world
		*trace
		print [sha256.Size]byte
	}
	known := map[[sha256.Size]byte]bool{start.print(): true}
	for queue := []found{{start, nil, start.print()}}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		queue[0] = found{}
		rest, err := at.wrong()
		if err != nil {
			return len(known), rests, fmt.Errorf("%w after\n  %s", err, at.trace)
		}
		if rest {
			rests++
			continue
		}
		at.query()
		for _, m := range at.moves() {
			next := at.fork()
			m.do(next)
			if state := next.print(); !known[state] {
				known[state] = true
				queue = append(queue, found{next, &trace{at.trace, m.name}, state})
			}
		}
		if at.world.print() != at.print {
			return len(known), rests, fmt.Errorf("a query, or an event of a clone, has changed the state after\n  %s", at.trace)
		}
	}
	return len(known), rests, nil
}

// query asks the state all that can be asked, which must not change it.
func (w *world) query() {
	s := w.state
	_, _ = s.Journal()
	_ = s.Status(w.now.Add(time.Hour))
	_, _ = s.Gauges()
	_ = s.Revision("unknown") + s.Target("unknown") + s.Loop()
	if s.view == nil {
		return
	}
	for id, g := range s.view.Groups {
		_ = s.Shown(id)
		_, _ = s.Bounds(g)
		_ = s.Placeholders(g, w.now)
	}
}

// TestModel visits every state that can be reached: whatever order the calls of Cluster Autoscaler,
// the answers of the cloud and its nodes come in, and whatever fails on the way, no node is ordered
// twice, the sizes at rest are those of one exact split, and rest is always come to. Every event occurs.
func TestModel(t *testing.T) {
	type bounds struct {
		groups, pods, faults int
		initial              [most]int
		kind                 worldKind
	}
	checked := []bounds{
		{groups: 3, pods: 2, faults: 1},
		{groups: 2, pods: 2, faults: 1, initial: [most]int{2, 0}},
		{groups: 2, pods: 3, faults: 1, kind: worldKind{deadline: true}},
		{groups: 2, pods: 2, faults: 1, kind: worldKind{released: true}},
		{groups: 2, pods: 2, kind: worldKind{inferred: true}},
	}
	if *deep {
		checked = []bounds{{groups: 3, pods: 3, faults: 1}, {groups: 3, pods: 4, faults: 1},
			{groups: 3, pods: 3, faults: 1, initial: [most]int{2, 0, 1}}, {groups: 2, pods: 2, faults: 2}}
	}
	if testing.Short() {
		checked = checked[2:]
	}
	events := map[string]int{}
	for _, b := range checked {
		start := newWorld(b.groups, b.pods, b.faults, b.initial, nil)
		start.kind, start.seen = b.kind, events
		start.restart() // with the policies of its kind
		visited, rests, err := search(start)
		t.Logf("%d groups of %v nodes, %d more needed, %d faults, %+v: %d states, %d of them at rest", b.groups, b.initial[:b.groups], b.pods,
			b.faults, b.kind, visited, rests)
		if err != nil {
			t.Error(err)
		}
	}
	for _, name := range declaredEvents(t) {
		if events[name] == 0 && name != "Sizes" { // which a state has that is ExpanderOnly: see TestExpanderAloneIsExact
			t.Errorf("the event %s never occurs", name)
		}
	}
}

// declaredEvents are the names of all events.
func declaredEvents(t *testing.T) (out []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	apply := regexp.MustCompile(`(?m)^func \((?:\w+ )?(\w+)\) apply\(`)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range apply.FindAllSubmatch(text, -1) {
			out = append(out, string(match[1]))
		}
	}
	return out
}

// TestModelFindsMistakes: in a state that does without one of its rules something is wrong.
func TestModelFindsMistakes(t *testing.T) {
	variants := map[string]func(*world){
		"that takes everything for counted": func(w *world) {
			for _, b := range w.state.groups {
				b.seen = true
			}
		},
		"that forgets orders that have not ended": func(w *world) {
			for _, b := range w.state.groups {
				b.order = nil
			}
		},
		"that forgets its answer to the expander": func(w *world) { w.state.caller.pick = nil },
		"without a journal that lasts":            func(w *world) { w.journal = nil },
	}
	for name, variant := range variants {
		t.Run("a state "+name, func(t *testing.T) {
			_, _, err := search(newWorld(2, 3, 1, [most]int{}, variant))
			if err == nil {
				t.Fatal("nothing is wrong")
			}
			t.Log(err)
		})
	}
}

// TestIncreaseByChanceAfterAnEmptyAnswer: the expander has answered that nothing is to grow, since
// what the pods need is on its way where Cluster Autoscaler does not count it. That answer is lost,
// so a group is increased by chance.
func TestIncreaseByChanceAfterAnEmptyAnswer(t *testing.T) {
	w := newWorld(2, 2, 0, [most]int{}, nil)
	w.begin()
	for _, o := range []outcome{taken, lost} {
		w.refresh()
		w.ca.chosen = w.ask(taken)
		w.increase(o)
	}
	w.refresh()
	if answer := w.ask(taken); answer >= 0 {
		t.Fatalf("group %d is to grow", answer)
	}
	w.choose(0)
	w.increase(taken)
	if w.target != [most]int{1, 1} {
		t.Errorf("sizes %v, want one node of each", w.target)
	}
}
