package admission

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/workloadspread"
	"github.com/evenkeel/evenkeel/workloadspread/store"
)

// The reasons of refusals that are not those of an admission.
const (
	reasonOwner = "OwnerUnknown"
	reasonPatch = "PatchRefused"
	reasonSpec  = "SpecRefused"
)

// createPod answers the creation of a pod with its subset.
func (s *Server) createPod(ctx context.Context, r *admissionv1.AdmissionRequest) ([]byte, error) {
	if dryRun(r) || r.Namespace == s.o.Namespace || r.Operation != admissionv1.Create || r.SubResource != "" {
		return nil, nil
	}
	pod := &v1.Pod{}
	if err := json.Unmarshal(r.Object.Raw, pod); err != nil {
		return nil, fmt.Errorf("reading the pod: %w", err)
	}
	pod.Namespace = r.Namespace
	if exempt(pod) {
		return nil, nil
	}
	o, err := s.find(ctx, pod)
	switch {
	case err != nil:
		return nil, fmt.Errorf("finding the WorkloadSpread of the pod: %w", err)
	case o == nil:
		return unmarked(r.Object.Raw, pod)
	}
	admitted, err := s.admit(ctx, r, o, pod)
	if err != nil {
		return nil, err
	}
	return difference(r.Object.Raw, pod, admitted)
}

// exempt reports whether a pod is none of a workload: static pods are mirrored, and a substitute is
// counted by the controller that creates it.
func exempt(pod *v1.Pod) bool {
	_, mirrored := pod.Annotations[v1.MirrorPodAnnotationKey]
	_, substitute := pod.Annotations[workloadspread.AnnotationSubstitute]
	return mirrored || substitute || !workloadspread.Active(pod)
}

// unmarked takes the assignment of another pod from a copy of it: it would be counted when this one is
// deleted.
func unmarked(raw []byte, pod *v1.Pod) ([]byte, error) {
	if _, ok := pod.Annotations[workloadspread.AnnotationSpread]; !ok {
		return nil, nil
	}
	out := pod.DeepCopy()
	delete(out.Annotations, workloadspread.AnnotationSpread)
	return difference(raw, pod, out)
}

// newPod is a pod that is being created, and what it would be in each subset.
type newPod struct {
	workloadspread.NewPod
	inSubset  []injected
	simulated []*v1.Pod // for each subset; nil if nothing is simulated
	heard     int       // the news from elsewhere when it was simulated
	generated bool      // its name
}

type injected struct {
	pod *v1.Pod
	err error // why the patch of the subset is refused
}

// prepare injects the rules of each subset.
func (s *Server) prepare(ctx context.Context, r *admissionv1.AdmissionRequest, o *v1alpha1.WorkloadSpread, pod *v1.Pod, selector labels.Selector) newPod {
	p := newPod{inSubset: make([]injected, len(o.Spec.Subsets)), generated: pod.Name == ""}
	p.ID, p.Revision, p.Ordinal = pod.Name, workloadspread.RevisionOf(pod), workloadspread.OrdinalOf(pod.Name)
	if p.generated {
		p.ID = string(r.UID)
	}
	pods := make([]*v1.Pod, len(o.Spec.Subsets))
	for i := range o.Spec.Subsets {
		with, err := workloadspread.Inject(pod, &o.Spec.Subsets[i], p.assignment(o, o.Spec.Subsets[i].Name), selector)
		p.inSubset[i] = injected{with, err}
		if pods[i] = with; err != nil {
			pods[i] = pod
		}
	}
	strategy := o.Spec.ScheduleStrategy
	if s.o.Simulator != nil && strategy.Type == v1alpha1.ScheduleAdaptive && (strategy.Adaptive == nil || !strategy.Adaptive.DisableSimulationSchedule) {
		p.simulated = pods
		s.simulate(ctx, o, &p)
	}
	return p
}

// simulate asks whether there is room for the pod beside those that the status says are being created.
func (s *Server) simulate(ctx context.Context, o *v1alpha1.WorkloadSpread, p *newPod) {
	p.heard = s.elsewhere.hear(o, p)
	room := s.o.Simulator.Room(ctx, p.simulated)
	for i, before := range p.Room {
		if room[i] == workloadspread.RoomUnknown {
			room[i] = before // there was no time, and there is hardly more room than there was
		}
	}
	p.Room = room
}

// overtaken reports whether the room on a node that the pod was to get may have gone to one that was
// admitted elsewhere since. From the last subset it cannot move on.
func (s *Server) overtaken(now *v1alpha1.WorkloadSpread, p *newPod, subset int) bool {
	return p.simulated != nil && subset >= 0 && subset < len(p.simulated)-1 && p.Room[subset] == workloadspread.RoomOnNode && s.elsewhere.hear(now, p) > p.heard
}

func (p *newPod) assignment(o *v1alpha1.WorkloadSpread, subset string) workloadspread.Assignment {
	a := workloadspread.Assignment{Name: o.Name, Subset: subset}
	if p.generated {
		a.ID = p.ID
	}
	return a
}

// tries is how often a pod is decided on while its WorkloadSpread or its workload changes.
const tries = 5

// admit counts the pod and returns it with the rules of its subset.
func (s *Server) admit(ctx context.Context, r *admissionv1.AdmissionRequest, o *v1alpha1.WorkloadSpread, pod *v1.Pod) (*v1.Pod, error) {
	age := recently
	if sensitive(&o.Spec) {
		age = 0
	}
	var p newPod
	for try := 1; ; try++ {
		w, err := s.workloads.of(ctx, o, age)
		if err != nil {
			return nil, err
		}
		if p.inSubset == nil {
			p = s.prepare(ctx, r, o, pod, w.Selector)
		}
		if len(p.inSubset) == 1 && !sensitive(&o.Spec) && o.Spec.Subsets[0].MaxReplicas == nil {
			return s.answer(o, pod, &p, workloadspread.Admission{}) // there is nothing to count
		}
		a, newest, err := s.decide(ctx, o, &p, w, age == 0)
		switch {
		case apierrors.IsNotFound(err):
			return pod, nil // the WorkloadSpread was deleted
		case err != nil:
			return nil, err
		case a != nil:
			return s.answer(o, pod, &p, *a)
		case try == tries:
			return nil, fmt.Errorf("the WorkloadSpread %s changes all the time", o.Name)
		}
		if age = 0; newest != nil {
			o, p = newest, newPod{}
			if !s.valid(o) {
				return pod, nil
			}
		}
	}
}

// errOutdated ends a decision that rests on what has changed in the meantime.
var errOutdated = errors.New("the WorkloadSpread or its workload has changed")

// decide decides on what is stored. If the admission is nil, it must be done again: with the
// WorkloadSpread that is returned, or with the workload as it is now.
func (s *Server) decide(ctx context.Context, o *v1alpha1.WorkloadSpread, p *newPod, w workloadspread.Workload, fresh bool) (*workloadspread.Admission, *v1alpha1.WorkloadSpread, error) {
	var a workloadspread.Admission
	var newest *v1alpha1.WorkloadSpread
	_, err := s.store.Update(ctx, client.ObjectKeyFromObject(o), func(now *v1alpha1.WorkloadSpread) (*v1alpha1.WorkloadSpreadStatus, bool, error) {
		if newest = nil; now.UID != o.UID || now.Generation != o.Generation {
			newest = now
			return nil, false, errOutdated
		}
		state := workloadspread.State{Spec: &o.Spec, Status: &now.Status, Workload: w, Now: s.clock.Now()}
		if a = workloadspread.Admit(state, p.NewPod); s.overtaken(now, p, a.Subset) {
			s.simulate(ctx, now, p)
			a = workloadspread.Admit(state, p.NewPod)
		}
		switch {
		case a.Subset >= 0 && p.inSubset[a.Subset].err != nil:
			return nil, false, nil //nolint:nilerr // it is refused, and not counted
		case a.Subset >= 0:
			return a.Status, a.Changed, nil
		case fresh:
			return a.Status, a.Changed, store.ErrUnsure
		}
		return nil, false, errOutdated
	})
	if errors.Is(err, errOutdated) {
		return nil, newest, nil
	}
	return &a, nil, err
}

// answer is the pod in its subset, or why it is refused.
func (s *Server) answer(o *v1alpha1.WorkloadSpread, pod *v1.Pod, p *newPod, a workloadspread.Admission) (*v1.Pod, error) {
	out, err := s.result(o, pod, p, a)
	if p.simulated != nil {
		s.o.Simulator.Decided(cmp.Or(out, p.simulated[0]), err == nil)
	}
	return out, err
}

func (s *Server) result(o *v1alpha1.WorkloadSpread, pod *v1.Pod, p *newPod, a workloadspread.Admission) (*v1.Pod, error) {
	if a.Subset >= 0 {
		in, subset := p.inSubset[a.Subset], o.Spec.Subsets[a.Subset].Name
		if in.err != nil {
			return nil, s.refused(o, http.StatusForbidden, reasonPatch, in.err.Error())
		}
		s.o.Metrics.admitted(o, subset)
		return in.pod, nil
	}
	switch {
	case a.Reason == workloadspread.ReasonUncertain:
		return nil, s.refused(o, http.StatusTooManyRequests, a.Reason, a.Message)
	case a.Refused:
		return nil, s.refused(o, http.StatusForbidden, a.Reason, a.Message+": wait until one has, raise maxReplicas, or set whenFull to Admit")
	}
	s.o.Metrics.admitted(o, "")
	s.say(o, a.Reason, "a new pod belongs to no subset: "+a.Message)
	return workloadspread.Inject(pod, nil, p.assignment(o, ""), nil)
}

func (s *Server) refused(o *v1alpha1.WorkloadSpread, code int32, reason, message string) error {
	s.o.Metrics.refused(reason)
	s.say(o, reason, "a new pod is refused: "+message)
	kind := metav1.StatusReasonForbidden
	if code == http.StatusTooManyRequests {
		kind = metav1.StatusReasonTooManyRequests
	}
	return refuse(code, kind, "WorkloadSpread %s: %s", o.Name, message)
}
