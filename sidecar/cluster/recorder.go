package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
)

// Limits on events. Equal ones are counted up in one object, and more than ten of one reason in ten
// minutes are combined, by client-go's rules.
const (
	eventQueue   = 100     // waiting to be published
	eventBurst   = 25      // published at once
	eventQPS     = 1. / 10 // published per second in the long run
	eventTries   = 5       // to publish one
	eventMessage = 1024    // bytes of a message; longer ones are cut
	eventTimeout = 5 * time.Second
	eventPause   = time.Second // before the second try; doubled for each further one
)

// Recorder publishes Kubernetes events.
type Recorder struct {
	events     coreclient.EventInterface
	object     v1.ObjectReference
	correlator *record.EventCorrelator
	clock      clock.Clock
	log        logr.Logger

	queue   chan *v1.Event
	number  atomic.Int64
	dropped atomic.Int64
}

func newRecorder(client kubernetes.Interface, o *Options) *Recorder {
	object := v1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: o.Namespace, Name: o.ConfigMap}
	if o.PodName != "" {
		object.Kind, object.Namespace, object.Name, object.UID = "Pod", o.PodNamespace, o.PodName, types.UID(o.PodUID)
	}
	return &Recorder{
		events: client.CoreV1().Events(object.Namespace),
		object: object,
		correlator: record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{
			BurstSize: eventBurst, QPS: eventQPS, Clock: o.Clock,
		}),
		clock: o.Clock,
		log:   o.Log,
		queue: make(chan *v1.Event, eventQueue),
	}
}

// Event publishes soon. It never blocks; what is too much is dropped and counted.
func (r *Recorder) Event(warning bool, reason, message string) {
	now := metav1.NewTime(r.clock.Now())
	kind := v1.EventTypeNormal
	if warning {
		kind = v1.EventTypeWarning
	}
	event := &v1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name:      fmt.Sprintf("%s.%x", r.object.Name, now.UnixNano()+r.number.Add(1)),
			Namespace: r.object.Namespace,
		},
		InvolvedObject:      r.object,
		Type:                kind,
		Reason:              reason,
		Message:             shortened(message),
		Source:              v1.EventSource{Component: userAgent},
		ReportingController: userAgent,
		FirstTimestamp:      now,
		LastTimestamp:       now,
		Count:               1,
	}
	select {
	case r.queue <- event:
	default:
		r.dropped.Add(1)
	}
}

// Dropped returns how many events were not published: too many at a time, or refused by the API
// server.
func (r *Recorder) Dropped() int64 { return r.dropped.Load() }

func (r *Recorder) run(ctx context.Context) {
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-r.queue:
			err := r.publish(ctx, event)
			if err != nil && !failing && ctx.Err() == nil {
				r.log.Error(err, "Events cannot be published")
			}
			failing = err != nil
		}
	}
}

// publish writes the event, or a count in place of it, unless there are too many. It tries again
// while the API server cannot be reached.
func (r *Recorder) publish(ctx context.Context, event *v1.Event) error {
	result, err := r.correlator.EventCorrelate(event)
	if err == nil && !result.Skip {
		err = r.insist(ctx, result)
	}
	if err != nil || result.Skip {
		r.dropped.Add(1)
	}
	return err
}

func (r *Recorder) insist(ctx context.Context, result *record.EventCorrelateResult) error {
	pause := eventPause
	for try := 1; ; try++ {
		err := r.write(ctx, result)
		var refused apierrors.APIStatus
		if err == nil || try == eventTries || errors.As(err, &refused) && !temporary(err) {
			return err
		}
		timer := r.clock.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C():
		}
		pause *= 2
	}
}

func temporary(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err)
}

func (r *Recorder) write(ctx context.Context, result *record.EventCorrelateResult) error {
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	event, verb := result.Event, "patch"
	var written *v1.Event
	var err error
	if event.Count > 1 {
		written, err = r.events.Patch(ctx, event.Name, types.StrategicMergePatchType, result.Patch, metav1.PatchOptions{})
	}
	if event.Count <= 1 || apierrors.IsNotFound(err) {
		verb = "create"
		event.ResourceVersion = ""
		written, err = r.events.Create(ctx, event, metav1.CreateOptions{})
	}
	if err != nil {
		return explained(err, verb, "events in namespace "+r.object.Namespace)
	}
	r.correlator.UpdateState(written)
	return nil
}

// shortened cuts a message at a whole character.
func shortened(message string) string {
	const more = "…"
	if len(message) <= eventMessage {
		return message
	}
	return strings.ToValidUTF8(message[:eventMessage-len(more)], "") + more
}
