package conditions_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/evenkeel/evenkeel/internal/provisioning"
	"github.com/evenkeel/evenkeel/internal/provisioning/conditions"
)

// A world is pods, and a writer of their conditions.
type world struct {
	*testing.T
	client   *fake.Clientset
	writer   *conditions.Writer
	registry *prometheus.Registry

	mu      sync.Mutex
	refuse  []error // one for each of the next writes
	patches int
	log     []string
}

// play runs a scene in virtual time.
func play(t *testing.T, pods []*v1.Pod, scene func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, registry: prometheus.NewRegistry()}
		var objects []runtime.Object
		for _, pod := range pods {
			objects = append(objects, pod)
		}
		w.client = fake.NewClientset(objects...)
		w.client.PrependReactor("patch", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if a.GetSubresource() != "status" {
				t.Errorf("%s is patched", a.GetSubresource())
			}
			w.patches++
			if len(w.refuse) == 0 {
				return false, nil, nil
			}
			err := w.refuse[0]
			w.refuse = w.refuse[1:]
			return err != nil, nil, err
		})
		w.writer = conditions.New(w.client.CoreV1(), conditions.Options{
			Metrics: conditions.NewMetrics(w.registry, "test_"),
			Log: funcr.New(func(_, args string) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.log = append(w.log, args)
			}, funcr.Options{}),
		})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { w.writer.Run(ctx) })
		scene(w)
		cancel()
		running.Wait()
	})
}

func pod(i int) *v1.Pod {
	name := fmt.Sprint("web-", i)
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid of " + name)},
		Status: v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse,
			Reason: v1.PodReasonUnschedulable}}},
	}
}

func of(pod *v1.Pod, acting bool, reason string) conditions.Notice {
	return conditions.Notice{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Acting: acting, Reason: reason,
		Message: "node group spot grows"}
}

// says is the condition of a pod, and for how long it has had that status.
func (w *world) says(of *v1.Pod) string {
	w.Helper()
	pod, err := w.client.CoreV1().Pods(of.Namespace).Get(w.Context(), of.Name, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == provisioning.ConditionType {
			return fmt.Sprintf("%s %s %v", c.Status, c.Reason, time.Since(c.LastTransitionTime.Time).Round(time.Second))
		}
	}
	return "nothing"
}

func (w *world) count(result string, want float64) {
	w.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.Fatal(err)
	}
	for _, m := range families[0].GetMetric() {
		if m.GetLabel()[0].GetValue() == result {
			if got := m.GetCounter().GetValue(); got != want {
				w.Errorf("%s: %v, want %v", result, got, want)
			}
			return
		}
	}
	w.Errorf("no metric of %s", result)
}

func TestConditionsAreWrittenWhenTheyChange(t *testing.T) {
	a := pod(0)
	play(t, []*v1.Pod{a}, func(w *world) {
		tell := func(acting bool, reason, want string) {
			w.Helper()
			<-time.After(10 * time.Second)
			w.writer.Set([]conditions.Notice{of(a, acting, reason)})
			synctest.Wait()
			if got := w.says(a); got != want {
				w.Errorf("it says %q, want %q", got, want)
			}
		}
		tell(true, "", "True  0s")
		tell(true, "", "True  10s")
		tell(true, provisioning.ReasonAttemptFailed, "True ProvisioningAttemptFailed 20s")
		tell(false, provisioning.ReasonNoOptions, "False NoOptionsAvailable 0s")
		tell(true, "", "True  0s")
		w.count("written", 4)
		w.count("unchanged", 1)
		got, err := w.client.CoreV1().Pods("shop").Get(w.Context(), a.Name, metav1.GetOptions{})
		if err != nil || len(got.Status.Conditions) != 2 {
			w.Errorf("the other condition is not as it was: %+v, %v", got.Status.Conditions, err)
		}
	})
}

func TestPodsThatDoNotWaitAreLeftAlone(t *testing.T) {
	bound, another := pod(0), pod(1)
	bound.Spec.NodeName = "n"
	play(t, []*v1.Pod{bound, another}, func(w *world) {
		before := another.DeepCopy()
		before.UID = "of the pod of this name before"
		w.writer.Set([]conditions.Notice{of(bound, false, provisioning.ReasonNoOptions), of(before, true, ""), of(pod(2), true, "")})
		synctest.Wait()
		w.count("gone", 3)
		if w.patches > 0 {
			w.Errorf("%d writes", w.patches)
		}
	})
}

func TestTheLastNoticeCounts(t *testing.T) {
	a := pod(0)
	play(t, []*v1.Pod{a}, func(w *world) {
		w.refuse = []error{apierrors.NewInternalError(errors.New("etcd")), apierrors.NewTooManyRequests("slow down", 1)}
		w.writer.Set([]conditions.Notice{of(a, true, "")})
		synctest.Wait()
		w.writer.Set([]conditions.Notice{of(a, false, provisioning.ReasonNoOptions)})
		<-time.After(time.Minute)
		if got := w.says(a); !strings.HasPrefix(got, "False NoOptionsAvailable") {
			w.Errorf("it says %q", got)
		}
		w.count("failed", 0)
	})
}

func TestAFailureIsLoggedOnceAndDoesNotStopTheOthers(t *testing.T) {
	a, b := pod(0), pod(1)
	play(t, []*v1.Pod{a, b}, func(w *world) {
		forbidden := apierrors.NewForbidden(v1.Resource("pods"), "web-0", errors.New("no right to patch pods/status"))
		w.refuse = []error{forbidden, forbidden}
		for range 2 {
			w.writer.Set([]conditions.Notice{of(a, true, "")})
			synctest.Wait()
		}
		w.writer.Set([]conditions.Notice{of(b, true, "")})
		synctest.Wait()
		if got := w.says(b); got != "True  0s" {
			w.Errorf("it says %q", got)
		}
		w.count("failed", 2)
		lines := slices.DeleteFunc(w.log, func(line string) bool { return !strings.Contains(line, "onditions of pods") })
		if len(lines) != 2 || !strings.Contains(lines[0], "no right to patch pods/status") {
			w.Errorf("logged %q", lines)
		}
	})
}

// A thousand pods get their condition in less than a minute, by one write each.
func TestAThousandPods(t *testing.T) {
	pods := make([]*v1.Pod, 1000)
	notices := make([]conditions.Notice, len(pods))
	for i := range pods {
		pods[i] = pod(i)
		notices[i] = of(pods[i], true, "")
	}
	play(t, pods, func(w *world) {
		for range 5 {
			w.writer.Set(notices) // the autoscaler says the same in each loop
		}
		began := time.Now()
		for w.done() < len(pods) {
			<-time.After(time.Second)
		}
		took := time.Since(began)
		if most := time.Duration(len(pods)/conditions.QPS) * time.Second; took > most || took < most/2 {
			w.Errorf("took %v, want at most %v, and no burst", took, most)
		}
		synctest.Wait() // the last write is counted
		w.count("written", 1000)
		if w.patches != 1000 {
			w.Errorf("%d writes", w.patches)
		}
	})
}

func (w *world) done() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.patches
}
