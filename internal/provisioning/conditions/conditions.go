// Package conditions writes the condition NodeProvisioningInProgress of pods, for the programs that
// know what an autoscaler does about them. Of each pod it writes what was said last, only if that
// changes something, and not too fast. Nobody waits for it.
//
// It does not know who decides, nor why.
package conditions

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/internal/provisioning"
)

const (
	// QPS and Burst bound how many pods are looked at per second, in the long run and at
	// once. A pod costs one read from the server's cache and at most one write.
	QPS   = 20
	Burst = 100
	// workers is how many pods are looked at at the same time.
	workers = 4
	// tries is how often a pod is looked at whose condition cannot be written.
	tries = 5
	// most is how many pods may wait to be looked at.
	most = 20000
	// timeout bounds a request.
	timeout = 10 * time.Second

	fieldManager = "evenkeel"
)

// Notice is what is done about a pod.
type Notice struct {
	Namespace, Name string
	UID             types.UID
	// Acting is true while a node is on its way.
	Acting bool
	// Reason is one of those of package provisioning, or empty; Message is a sentence.
	Reason, Message string
}

// Options of a Writer.
type Options struct {
	// Metrics count what is done; nil means that nothing is counted.
	Metrics *Metrics
	// Clock is the time; nil means the clock of the machine.
	Clock clock.PassiveClock
	// Log receives a line when writing fails, and when it works again.
	Log logr.Logger
}

// Metrics count conditions.
type Metrics struct{ pods *prometheus.CounterVec }

// The results of a notice.
const (
	written   = "written"
	unchanged = "unchanged"
	gone      = "gone" // or it has a node
	failed    = "failed"
	dropped   = "dropped"
)

// NewMetrics registers the metrics under a prefix such as evenkeel_sidecar_; nil registers them nowhere.
func NewMetrics(registerer prometheus.Registerer, prefix string) *Metrics {
	m := &Metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: prefix + "pod_conditions_total",
		Help: "What happened to conditions of pods that say what the autoscaler does about them, by result: written, " +
			"unchanged, gone (or the pod has a node), failed, dropped (too many).",
	}, []string{"result"})}
	for _, result := range []string{written, unchanged, gone, failed, dropped} {
		m.pods.WithLabelValues(result)
	}
	if registerer != nil {
		registerer.MustRegister(m.pods)
	}
	return m
}

// Writer writes conditions. Its methods may be called by several goroutines.
type Writer struct {
	pods    coreclient.PodsGetter
	clock   clock.PassiveClock
	limit   flowcontrol.RateLimiter
	queue   workqueue.TypedRateLimitingInterface[types.UID]
	metrics *Metrics
	log     logr.Logger

	mu      sync.Mutex
	notices map[types.UID]Notice // that wait
	failing bool
}

// New returns a writer, which writes nothing before Run.
func New(pods coreclient.PodsGetter, o Options) *Writer {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil, "")
	}
	return &Writer{
		pods: pods, clock: o.Clock, metrics: o.Metrics, log: o.Log,
		limit:   flowcontrol.NewTokenBucketRateLimiter(QPS, Burst),
		queue:   workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](time.Second, 30*time.Second)),
		notices: map[types.UID]Notice{},
	}
}

// Set has the conditions of pods written soon. It never blocks; of a pod the last notice counts.
func (w *Writer) Set(notices []Notice) {
	for _, n := range notices {
		w.mu.Lock()
		_, waits := w.notices[n.UID]
		full := !waits && len(w.notices) >= most
		if !full {
			w.notices[n.UID] = n
		}
		w.mu.Unlock()
		if full {
			w.metrics.pods.WithLabelValues(dropped).Inc()
			continue
		}
		w.queue.Add(n.UID)
	}
}

// Run writes until ctx is done. What waits then is not written.
func (w *Writer) Run(ctx context.Context) {
	stop := context.AfterFunc(ctx, w.queue.ShutDown)
	defer stop()
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for w.next(ctx) {
			}
		})
	}
	all.Wait()
}

// next writes the condition of one pod. It is false when ctx is done.
func (w *Writer) next(ctx context.Context) bool {
	uid, shutdown := w.queue.Get()
	if shutdown || w.limit.Wait(ctx) != nil {
		return false
	}
	defer w.queue.Done(uid)
	w.mu.Lock()
	notice, waits := w.notices[uid]
	delete(w.notices, uid)
	w.mu.Unlock()
	if !waits {
		return true
	}
	result, err := w.write(ctx, notice)
	if err != nil && ctx.Err() == nil && !apierrors.IsForbidden(err) && w.queue.NumRequeues(uid) < tries-1 {
		w.putBack(notice)
		return true
	}
	w.queue.Forget(uid)
	w.metrics.pods.WithLabelValues(result).Inc()
	w.report(ctx, notice, err)
	return true
}

// putBack has a notice tried again, unless there is a newer one.
func (w *Writer) putBack(n Notice) {
	w.mu.Lock()
	if _, newer := w.notices[n.UID]; !newer {
		w.notices[n.UID] = n
	}
	w.mu.Unlock()
	w.queue.AddRateLimited(n.UID)
}

// write writes the condition if the pod waits for a node and the condition says something else.
func (w *Writer) write(ctx context.Context, n Notice) (result string, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	pods := w.pods.Pods(n.Namespace)
	pod, err := pods.Get(ctx, n.Name, metav1.GetOptions{ResourceVersion: "0"})
	switch {
	case apierrors.IsNotFound(err):
		return gone, nil
	case err != nil:
		return failed, fmt.Errorf("get pod %s/%s: %w", n.Namespace, n.Name, err)
	case pod.UID != n.UID || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil:
		return gone, nil
	}
	patch := w.patch(pod, n)
	if patch == nil {
		return unchanged, nil
	}
	_, err = pods.Patch(ctx, n.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}, "status")
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err): // another pod has its name
		return gone, nil
	case err != nil:
		return failed, fmt.Errorf("patch the status of pod %s/%s: %w", n.Namespace, n.Name, err)
	}
	return written, nil
}

// patch is the change of the condition; nil if there is none. The time changes with the status only.
func (w *Writer) patch(pod *v1.Pod, n Notice) []byte {
	status := v1.ConditionFalse
	if n.Acting {
		status = v1.ConditionTrue
	}
	since := metav1.NewTime(w.clock.Now())
	for _, c := range pod.Status.Conditions {
		switch {
		case c.Type != provisioning.ConditionType || c.Status != status:
		case c.Reason == n.Reason:
			return nil
		default:
			since = c.LastTransitionTime
		}
	}
	// An omitted field would keep its value.
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": n.UID},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": provisioning.ConditionType, "status": status, "reason": n.Reason, "message": n.Message, "lastTransitionTime": since,
		}}},
	})
	if err != nil {
		return nil // of strings and a time
	}
	return patch
}

// report logs the first failure, and the first success after it.
func (w *Writer) report(ctx context.Context, n Notice, err error) {
	w.mu.Lock()
	was := w.failing
	w.failing = err != nil
	w.mu.Unlock()
	switch {
	case ctx.Err() != nil:
	case err != nil && !was:
		w.log.Error(err, "The conditions of pods cannot be written", "condition", provisioning.ConditionType, "pod", n.Namespace+"/"+n.Name)
	case err == nil && was:
		w.log.Info("The conditions of pods are written again", "condition", provisioning.ConditionType)
	}
}
