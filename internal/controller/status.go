package controller

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// maxDecisions is how many decisions are remembered.
const maxDecisions = 100

// Status is what a Manager runs, and what its controllers decided last.
type Status struct {
	Identity    string     `json:"identity"` // that of the Lease
	Leading     bool       `json:"leading"`
	Controllers []Running  `json:"controllers"`
	Watches     string     `json:"watches,omitempty"` // why what is watched is outdated
	Decisions   []Decision `json:"decisions"`         // the newest first, at most 100
}

// Running is a controller, and why it does not run.
type Running struct {
	Name    string `json:"name"`
	Waiting string `json:"waiting,omitempty"`
}

// Decision is what a controller did or found, and why: an event that it recorded.
type Decision struct {
	Time    time.Time `json:"time"`
	Call    string    `json:"call"`   // the reason of the event, one word
	Object  string    `json:"object"` // its kind and name
	Reason  string    `json:"reason"`
	Warning bool      `json:"warning,omitempty"`
}

// Status returns what the Manager does now.
func (m *Manager) Status() Status {
	s := Status{Identity: m.options.Identity, Controllers: []Running{}, Decisions: m.decided.newest()}
	select {
	case <-m.manager.Elected():
		s.Leading = true
	default:
	}
	waiting := m.waiting.names()
	for _, name := range m.names {
		running := Running{Name: name}
		if slices.Contains(waiting, name) {
			running.Waiting = m.waiting.why[name].Error()
		}
		s.Controllers = append(s.Controllers, running)
	}
	if err := m.watches.problem(0); err != nil {
		s.Watches = strings.Join(strings.Fields(err.Error()), " ")
	}
	return s
}

// decided is what was decided last. Its events are recorded by another one, too.
type decided struct {
	clock clock.PassiveClock

	mu  sync.Mutex
	all []Decision // the oldest first
}

// add remembers a decision. One that repeats the one before is remembered once.
func (d *decided) add(one Decision) {
	one.Time = d.clock.Now().UTC()
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.all); n > 0 {
		before := d.all[n-1]
		if before.Time = one.Time; before == one {
			d.all = d.all[:n-1]
		}
	}
	d.all = append(d.all, one)
	d.all = slices.Delete(d.all, 0, max(0, len(d.all)-maxDecisions))
}

func (d *decided) newest() []Decision {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := append([]Decision{}, d.all...)
	slices.Reverse(out)
	return out
}

// remembering is a manager of controllers whose events are remembered.
type remembering struct {
	manager.Manager
	decided *decided
}

// GetEventRecorder implements recorder.Provider.
func (r remembering) GetEventRecorder(name string) events.EventRecorder {
	return remembered{r.Manager.GetEventRecorder(name), r.decided, r.GetScheme()}
}

type remembered struct {
	events.EventRecorder
	decided *decided
	scheme  *runtime.Scheme
}

// maxReason bounds the text of a decision that is remembered.
const maxReason = 1024

// Eventf implements events.EventRecorder.
//
//nolint:revive // whose arguments these are
func (r remembered) Eventf(about, related runtime.Object, kind, reason, action, note string, args ...any) {
	r.EventRecorder.Eventf(about, related, kind, reason, action, note, args...)
	text := fmt.Sprintf(note, args...)
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "")
	}
	r.decided.add(Decision{Call: reason, Object: r.name(about), Reason: text, Warning: kind == v1.EventTypeWarning})
}

// name is the kind of an object, and its name with the namespace.
func (r remembered) name(o runtime.Object) string {
	var parts []string
	if kind, err := apiutil.GVKForObject(o, r.scheme); err == nil {
		parts = append(parts, kind.Kind)
	}
	if m, err := meta.Accessor(o); err == nil {
		parts = append(parts, strings.TrimPrefix(m.GetNamespace()+"/"+m.GetName(), "/"))
	}
	return strings.Join(parts, " ")
}
