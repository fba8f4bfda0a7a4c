package admission

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/workloadspread"
)

// created is a world with a pod of subset a, as it was stored.
func created(t *testing.T) (*world, *v1.Pod) {
	w := newWorld(t, Options{}, append(deployment(5), spreadOf(t, "web", twoSubsets))...)
	pod, text := w.create(podOfWeb)
	if pod == nil {
		t.Fatal(text)
	}
	pod.Namespace, pod.Name, pod.UID = "shop", "web-1-abc", "uid-pod"
	if err := w.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	return w, pod
}

// deleting is how many pods of subset a are counted as gone.
func (w *world) deleting() int {
	return len(w.spread("web").Status.VersionedSubsetStatuses["1"][0].DeletingPods)
}

func evict(name string, eviction *policyv1.Eviction) admissionv1.AdmissionRequest {
	raw, err := json.Marshal(eviction)
	if err != nil {
		panic(err)
	}
	return admissionv1.AdmissionRequest{Operation: admissionv1.Create, SubResource: "eviction", Name: name, Object: runtime.RawExtension{Raw: raw}}
}

func TestARemovalIsCountedOnce(t *testing.T) {
	w, pod := created(t)
	for range 2 {
		if _, text, r := w.call(PathValidatePods, evict(pod.Name, &policyv1.Eviction{})); r == nil || !r.Allowed {
			t.Error(text)
		}
	}
	for range 2 {
		if text := w.remove(pod, func(r *admissionv1.AdmissionRequest) { r.Name = "" }); text != "" { // of a collection
			t.Error(text)
		}
	}
	if used := w.used("web"); used["a"] != 0 || w.deleting() != 1 {
		t.Errorf("used %v, deleting %d", used, w.deleting())
	}
	if pod, _ := w.create(podOfWeb); subsetOf(pod) != "a" {
		t.Errorf("the next one is in %s", subsetOf(pod))
	}
}

func TestWhatIsNotCountedAsGone(t *testing.T) {
	options := func(o metav1.DeleteOptions) runtime.RawExtension {
		raw, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		return runtime.RawExtension{Raw: raw}
	}
	for name, change := range map[string]func(*v1.Pod, *admissionv1.AdmissionRequest){
		"a dry run": func(_ *v1.Pod, r *admissionv1.AdmissionRequest) { r.DryRun = ptr.To(true) },
		"a dry run by option": func(_ *v1.Pod, r *admissionv1.AdmissionRequest) {
			r.Options = options(metav1.DeleteOptions{DryRun: []string{"All"}})
		},
		"another UID": func(_ *v1.Pod, r *admissionv1.AdmissionRequest) {
			r.Options = options(metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("x")})
		},
		"is being deleted":   func(p *v1.Pod, _ *admissionv1.AdmissionRequest) { p.DeletionTimestamp = ptr.To(metav1.Now()) },
		"has succeeded":      func(p *v1.Pod, _ *admissionv1.AdmissionRequest) { p.Status.Phase = v1.PodSucceeded },
		"has failed":         func(p *v1.Pod, _ *admissionv1.AdmissionRequest) { p.Status.Phase = v1.PodFailed },
		"no mark":            func(p *v1.Pod, _ *admissionv1.AdmissionRequest) { p.Annotations = nil },
		"an unreadable mark": func(p *v1.Pod, _ *admissionv1.AdmissionRequest) { p.Annotations[workloadspread.AnnotationSpread] = "{" },
		"no subset":          func(p *v1.Pod, _ *admissionv1.AdmissionRequest) { mark(p, workloadspread.Assignment{Name: "web"}) },
		"unknown subset": func(p *v1.Pod, _ *admissionv1.AdmissionRequest) {
			mark(p, workloadspread.Assignment{Name: "web", Subset: "z"})
		},
		"unlimited subset": func(p *v1.Pod, _ *admissionv1.AdmissionRequest) {
			mark(p, workloadspread.Assignment{Name: "web", Subset: "b"})
		},
		"another WorkloadSpread": func(p *v1.Pod, _ *admissionv1.AdmissionRequest) {
			mark(p, workloadspread.Assignment{Name: "gone", Subset: "a"})
		},
		"a substitute": func(p *v1.Pod, _ *admissionv1.AdmissionRequest) {
			p.Annotations[workloadspread.AnnotationSubstitute] = "x"
		},
		"another subresource": func(_ *v1.Pod, r *admissionv1.AdmissionRequest) { r.SubResource = "status" },
	} {
		t.Run(name, func(t *testing.T) {
			w, pod := created(t)
			r := admissionv1.AdmissionRequest{Operation: admissionv1.Delete, Name: pod.Name}
			change(pod, &r)
			raw, err := json.Marshal(pod)
			if err != nil {
				t.Fatal(err)
			}
			r.OldObject.Raw = raw
			if code, text, answer := w.call(PathValidatePods, r); code != http.StatusOK || !answer.Allowed {
				t.Errorf("%d: %s", code, text)
			}
			if w.deleting() != 0 {
				t.Error("it is counted")
			}
		})
	}
}

func mark(p *v1.Pod, a workloadspread.Assignment) {
	p.Annotations[workloadspread.AnnotationSpread] = a.String()
}

func TestEvictionsThatDoNothing(t *testing.T) {
	w, pod := created(t)
	for _, r := range []admissionv1.AdmissionRequest{
		evict("gone", &policyv1.Eviction{}),
		evict(pod.Name, &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{DryRun: []string{"All"}}}),
		evict(pod.Name, &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID("x"))}}}),
	} {
		if code, text, answer := w.call(PathValidatePods, r); code != http.StatusOK || !answer.Allowed {
			t.Errorf("%d: %s", code, text)
		}
	}
	if w.deleting() != 0 {
		t.Error("it is counted")
	}
}

// A removal that cannot be counted is a failed call, which says what to do; the failure policy decides.
func TestAFailureSaysWhatToDo(t *testing.T) {
	w, pod := created(t)
	w.mu.Lock()
	w.failing["*v1.Pod"] = errors.New("no route to host")
	w.mu.Unlock()
	code, text, _ := w.call(PathValidatePods, evict(pod.Name, &policyv1.Eviction{}))
	for _, want := range []string{"evenkeel: the removal of pod web-1-abc cannot be counted", "no route to host", "try again", "failurePolicy: Ignore"} {
		if code != http.StatusInternalServerError || !strings.Contains(text, want) {
			t.Errorf("%d: %s", code, text)
		}
	}
	w.failing["*v1alpha1.WorkloadSpread"] = apierrors.NewForbidden(v1.Resource("workloadspreads"), "web", errors.New("no rights"))
	begin := time.Now()
	raw, _ := json.Marshal(pod)
	code, text, _ = w.call(PathValidatePods, admissionv1.AdmissionRequest{Operation: admissionv1.Delete, Name: pod.Name, OldObject: runtime.RawExtension{Raw: raw}})
	if code != http.StatusInternalServerError || !strings.Contains(text, "in WorkloadSpread web: ") || time.Since(begin) > 5*time.Second {
		t.Errorf("%d: %s", code, text)
	}
}
