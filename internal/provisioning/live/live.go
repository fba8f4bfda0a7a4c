// Package live reads from the API server what an autoscaler says about pods, as package provisioning
// needs it: the events of autoscalers, by namespace, and the status of Cluster Autoscaler. It reads
// nothing while no pod waits, and no events about pods with the condition.
//
// It asks the server itself, at most every few seconds: API servers do not cache events, so a watch
// of them costs more. It writes nothing, and does not know what follows from the answers.
package live

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/internal/provisioning"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// MaxAge is for how long an answer of the API server is used.
const MaxAge = 5 * time.Second

// statusOf is the ConfigMap with the status of Cluster Autoscaler.
var statusOf = types.NamespacedName{Namespace: provisioning.StatusNamespace, Name: provisioning.StatusConfigMap}

// pageSize is the number of events of a page.
const pageSize = 500

// Reader reads what autoscalers say. It is safe for concurrent use: a caller waits if another one
// is asking the same.
type Reader struct {
	client client.Reader
	clock  clock.PassiveClock

	mu     sync.Mutex
	events map[string]*answer[map[types.UID][]v1.Event] // by namespace
	status answer[*provisioning.Status]
}

// answer is what the API server said last.
type answer[T any] struct {
	mu    sync.Mutex
	at    time.Time // zero: not asked, or not answered
	value T
	err   error // of what was read, which is not read again
}

// New returns a reader that asks a client, which should not be one with a cache.
func New(c client.Reader, clock clock.PassiveClock) *Reader {
	return &Reader{client: c, clock: clock, events: map[string]*answer[map[types.UID][]v1.Event]{}}
}

// ScaleUps returns what an autoscaler does about those of the pods that the scheduler finds no node
// for, by UID; pods of which nothing is known have no entry. Ask again every MaxAge while a pod waits.
//
// The entries count whatever the error is. If the API server cannot be asked, pods are taken to wait for
// a node, so that nothing hasty is done; if the status cannot be understood, the rest counts alone.
func (r *Reader) ScaleUps(ctx context.Context, pods []*v1.Pod) (map[types.UID]workloadspread.ScaleUp, error) {
	out := map[types.UID]workloadspread.ScaleUp{}
	events, failed := map[string]map[types.UID][]v1.Event{}, map[string]error{}
	var status *provisioning.Status
	var problem error
	asked := false
	for _, pod := range pods {
		since, waits := workloadspread.UnschedulableSince(pod)
		if !waits {
			continue
		}
		acts, _, hasCondition := provisioning.Condition(pod)
		namespace := pod.Namespace
		if _, listed := events[namespace]; !listed && !hasCondition {
			events[namespace], failed[namespace] = r.eventsIn(ctx, namespace)
		}
		if !asked && !acts {
			asked = true
			status, problem = r.Status(ctx)
		}
		unread := !hasCondition && failed[namespace] != nil || !acts && errors.Is(problem, errUnread)
		scaleUp, known := provisioning.Of(pod, events[namespace][pod.UID], status, r.clock.Now())
		if unread && !scaleUp.Acting {
			scaleUp, known = workloadspread.ScaleUp{Acting: true, Since: since}, true
		}
		if known {
			out[pod.UID] = scaleUp
		}
	}
	return out, errors.Join(append(slices.Collect(maps.Values(failed)), problem)...)
}

// errUnread says that the API server did not answer.
var errUnread = errors.New("the API server did not answer")

// eventsIn are the events of autoscalers in a namespace, by the UID of the object that they are about.
func (r *Reader) eventsIn(ctx context.Context, namespace string) (map[types.UID][]v1.Event, error) {
	r.mu.Lock()
	a := r.events[namespace]
	if a == nil {
		a = &answer[map[types.UID][]v1.Event]{}
		r.events[namespace] = a
	}
	r.mu.Unlock()
	return a.get(r.clock, func() (map[types.UID][]v1.Event, error, error) {
		r.forget()
		out := map[types.UID][]v1.Event{}
		for _, source := range provisioning.Sources {
			if err := r.list(ctx, namespace, source, out); err != nil {
				return nil, nil, fmt.Errorf("%w: list the events of %s in namespace %s: %w", errUnread, source, namespace, err)
			}
		}
		return out, nil, nil
	})
}

// list adds the events of one autoscaler.
func (r *Reader) list(ctx context.Context, namespace, source string, out map[types.UID][]v1.Event) error {
	fromSource := client.MatchingFieldsSelector{Selector: fields.AndSelectors(
		fields.OneTermEqualSelector("involvedObject.kind", "Pod"), fields.OneTermEqualSelector("source", source))}
	for next := ""; ; {
		var page v1.EventList
		err := r.client.List(ctx, &page, client.InNamespace(namespace), fromSource, client.Limit(pageSize), client.Continue(next))
		if err != nil {
			return err
		}
		for _, e := range page.Items {
			e.ManagedFields = nil
			out[e.InvolvedObject.UID] = append(out[e.InvolvedObject.UID], e)
		}
		if next = page.Continue; next == "" {
			return nil
		}
	}
}

// forget drops the namespaces that nobody has asked about for long.
func (r *Reader) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for namespace, a := range r.events {
		if a.mu.TryLock() {
			if !a.at.IsZero() && r.clock.Since(a.at) > 10*MaxAge {
				delete(r.events, namespace)
			}
			a.mu.Unlock()
		}
	}
}

// Status returns the status of Cluster Autoscaler; nil if it keeps none, or none that can be read or
// understood, which the error says.
func (r *Reader) Status(ctx context.Context) (*provisioning.Status, error) {
	return r.status.get(r.clock, func() (*provisioning.Status, error, error) {
		var object v1.ConfigMap
		err := r.client.Get(ctx, statusOf, &object)
		if apierrors.IsNotFound(err) {
			return nil, nil, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%w: get ConfigMap %s: %w", errUnread, statusOf, err)
		}
		status, err := provisioning.ParseStatus(object.Data[provisioning.StatusKey])
		if err != nil {
			return nil, fmt.Errorf("ConfigMap %s: %w", statusOf, err), nil
		}
		return &status, nil, nil
	})
}

// get returns the answer, which it asks for if there is none that is new enough. What is asked
// returns a value, what is wrong with that, and why there is none.
func (a *answer[T]) get(clock clock.PassiveClock, ask func() (value T, flaw, err error)) (T, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.at.IsZero() && clock.Since(a.at) < MaxAge {
		return a.value, a.err
	}
	at := clock.Now()
	value, flaw, err := ask()
	if err != nil {
		return value, err
	}
	a.at, a.value, a.err = at, value, flaw
	return value, flaw
}
