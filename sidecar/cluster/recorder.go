package cluster

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

// Limits on events. Equal ones are counted up in one object, more than ten of one reason in ten minutes
// are combined, and one that cannot be written is tried again for two minutes, by client-go's rules.
const (
	eventBurst   = 25      // published at once
	eventQPS     = 1. / 10 // published per second in the long run
	eventMessage = 1024    // bytes of a message; longer ones are cut
	eventTimeout = 5 * time.Second
)

// Recorder publishes Kubernetes events.
type Recorder struct {
	events record.EventRecorder
	object v1.ObjectReference
}

// newRecorder returns a recorder that publishes until ctx ends.
func newRecorder(ctx context.Context, client kubernetes.Interface, o *Options) *Recorder {
	object := v1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: o.Namespace, Name: o.ConfigMap}
	if o.PodName != "" {
		object.Kind, object.Namespace, object.Name, object.UID = "Pod", o.PodNamespace, o.PodName, types.UID(o.PodUID)
	}
	broadcaster := record.NewBroadcaster(
		record.WithContext(klog.NewContext(ctx, logr.Discard())), // the sink logs
		record.WithCorrelatorOptions(record.CorrelatorOptions{BurstSize: eventBurst, QPS: eventQPS, Clock: o.Clock}),
	)
	broadcaster.StartRecordingToSink(&sink{ctx: ctx, events: client.CoreV1().Events(object.Namespace), object: "events in namespace " +
		object.Namespace, log: o.Log})
	return &Recorder{broadcaster.NewRecorder(runtime.NewScheme(), v1.EventSource{Component: cmp.Or(o.component, userAgent)}), object}
}

// Event publishes soon. It never blocks; what is too much is dropped.
func (r *Recorder) Event(warning bool, reason, message string) {
	kind := v1.EventTypeNormal
	if warning {
		kind = v1.EventTypeWarning
	}
	r.events.Event(&r.object, kind, reason, shortened(message))
}

// sink writes events for one goroutine, and logs once that they cannot be written.
type sink struct {
	ctx     context.Context //nolint:containedctx // client-go's sinks are given none
	events  coreclient.EventInterface
	object  string
	log     logr.Logger
	failing bool
}

var _ record.EventSink = (*sink)(nil)

// Create implements record.EventSink.
func (s *sink) Create(event *v1.Event) (*v1.Event, error) {
	return s.write("create", event, func(ctx context.Context) (*v1.Event, error) {
		return s.events.Create(ctx, event, metav1.CreateOptions{})
	})
}

// Update implements record.EventSink.
func (s *sink) Update(event *v1.Event) (*v1.Event, error) {
	return s.write("update", event, func(ctx context.Context) (*v1.Event, error) {
		return s.events.Update(ctx, event, metav1.UpdateOptions{})
	})
}

// Patch implements record.EventSink.
func (s *sink) Patch(event *v1.Event, patch []byte) (*v1.Event, error) {
	return s.write("patch", event, func(ctx context.Context) (*v1.Event, error) {
		return s.events.Patch(ctx, event.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	})
}

// write makes a call. An event that the API server refuses for good is not tried again; one that it has
// lost is created anew.
func (s *sink) write(verb string, event *v1.Event, call func(context.Context) (*v1.Event, error)) (*v1.Event, error) {
	ctx, cancel := context.WithTimeout(s.ctx, eventTimeout)
	defer cancel()
	written, err := call(ctx)
	if apierrors.IsNotFound(err) && verb == "patch" {
		return nil, err
	}
	why := explained(err, verb, s.object)
	if err != nil && !s.failing && s.ctx.Err() == nil {
		s.log.Error(why, "Events cannot be published")
	}
	s.failing = err != nil
	var refused apierrors.APIStatus
	if errors.As(err, &refused) && !temporary(err) {
		return event, nil
	}
	return written, why
}

func temporary(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err)
}

// shortened cuts a message at a whole character.
func shortened(message string) string {
	const more = "…"
	if len(message) <= eventMessage {
		return message
	}
	return strings.ToValidUTF8(message[:eventMessage-len(more)], "") + more
}
