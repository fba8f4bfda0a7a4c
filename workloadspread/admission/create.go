package admission

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

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

// exempt reports whether a pod is none of a workload: static pods are mirrored.
func exempt(pod *v1.Pod) bool {
	_, mirrored := pod.Annotations[v1.MirrorPodAnnotationKey]
	return mirrored || !workloadspread.Active(pod)
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
	of        int64 // the generation of the WorkloadSpread
	inSubset  []injected
	simulated []*v1.Pod // for each subset; nil if nothing is simulated
	generated bool      // its name
}

type injected struct {
	pod *v1.Pod
	err error // why the patch of the subset is refused
}

// prepare injects the rules of each subset, and asks whether there is room for the pod.
func (s *Server) prepare(ctx context.Context, r *admissionv1.AdmissionRequest, o *v1alpha1.WorkloadSpread, pod *v1.Pod, selector labels.Selector) newPod {
	p := newPod{of: o.Generation, inSubset: make([]injected, len(o.Spec.Subsets)), generated: pod.Name == ""}
	p.ID, p.Revision, p.Ordinal = pod.Name, workloadspread.RevisionOf(pod), workloadspread.OrdinalOf(pod.Name)
	if p.generated {
		p.ID = string(r.UID)
	}
	pods := make([]*v1.Pod, len(o.Spec.Subsets))
	for i := range o.Spec.Subsets {
		with, err := workloadspread.Inject(pod, workloadspread.Fitting(o, i, pod, selector), p.assignment(o, o.Spec.Subsets[i].Name), selector)
		p.inSubset[i] = injected{with, err}
		if pods[i] = with; err != nil {
			pods[i] = pod
		}
	}
	strategy := o.Spec.ScheduleStrategy
	if s.o.Simulator != nil && strategy.Type == v1alpha1.ScheduleAdaptive && (strategy.Adaptive == nil || !strategy.Adaptive.DisableSimulationSchedule) {
		p.simulated, p.Room = pods, s.o.Simulator.Room(ctx, pods)
	}
	return p
}

func (p *newPod) assignment(o *v1alpha1.WorkloadSpread, subset string) workloadspread.Assignment {
	a := workloadspread.Assignment{Name: o.Name, Subset: subset}
	if p.generated {
		a.ID = p.ID
	}
	return a
}

// admit counts the pod and returns it with the rules of its subset.
func (s *Server) admit(ctx context.Context, r *admissionv1.AdmissionRequest, o *v1alpha1.WorkloadSpread, pod *v1.Pod) (*v1.Pod, error) {
	var p newPod
	var a workloadspread.Admission
	_, err := s.store.Update(ctx, client.ObjectKeyFromObject(o), func(now *v1alpha1.WorkloadSpread, round *store.Round) (*v1alpha1.WorkloadSpreadStatus, bool, error) {
		if o = now; o.DeletionTimestamp != nil || !s.valid(o) {
			return nil, false, errNone
		}
		known, err := s.facts(round, o)
		if err != nil {
			return nil, false, err
		}
		if p.inSubset == nil || p.of != o.Generation {
			p = s.prepare(ctx, r, o, pod, known.Selector)
		}
		state := workloadspread.State{Spec: &o.Spec, Status: &o.Status, Workload: known.Workload, Now: s.clock.Now(), Counted: known.counted}
		if a = workloadspread.Admit(state, p.NewPod); a.Recount {
			pods, err := s.podsOf(round.Context, o, known)
			if err != nil {
				return nil, false, err
			}
			state.Status, state.Counted, known.counted = workloadspread.Recount(state, o.Name, p.Revision, pods), true, true
			a = workloadspread.Admit(state, p.NewPod)
		}
		switch {
		case a.Subset < 0 && !round.Live:
			return nil, false, store.ErrUnsure
		case a.Subset >= 0 && p.inSubset[a.Subset].err != nil:
			return nil, false, nil //nolint:nilerr // it is refused, and not counted
		}
		return a.Status, a.Changed, nil
	})
	switch {
	case errors.Is(err, errNone), apierrors.IsNotFound(err):
		return pod, nil // the WorkloadSpread was deleted or broken meanwhile
	case err != nil:
		return nil, err
	}
	return s.answer(o, pod, &p, a)
}

// errNone ends a decision about a WorkloadSpread that has no pods any more.
var errNone = errors.New("the WorkloadSpread has no pods")

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
			return nil, s.refused(o, http.StatusForbidden, workloadspread.ReasonPatchRefused, in.err.Error())
		}
		s.o.Metrics.admitted(o, subset)
		return costing(in.pod, a.Cost), nil
	}
	if a.Refused {
		return nil, s.refused(o, http.StatusForbidden, a.Reason, a.Message+": wait until one has, raise maxReplicas, or set whenFull to Admit")
	}
	s.o.Metrics.admitted(o, "")
	s.say(o, a.Reason, "a new pod belongs to no subset: "+a.Message)
	none, err := workloadspread.Inject(pod, nil, p.assignment(o, ""), nil)
	return costing(none, a.Cost), err
}

// costing writes the deletion cost of a pod, so that the order of the scale-down does not depend on the
// controller.
func costing(pod *v1.Pod, cost int32) *v1.Pod {
	if cost != 0 {
		pod.Annotations[workloadspread.AnnotationCost] = strconv.Itoa(int(cost))
	}
	return pod
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
