package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/json"
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

// createPod answers the creation of a pod with its subset. Fields that only newer versions of Kubernetes know
// stay as they were sent.
func (s *Server) createPod(ctx context.Context, r *admissionv1.AdmissionRequest) ([]byte, error) {
	if dryRun(r) || r.Namespace == s.o.Namespace || r.Operation != admissionv1.Create || r.SubResource != "" {
		return nil, nil
	}
	p := &newPod{Pod: &v1.Pod{}}
	if err := errors.Join(json.Unmarshal(r.Object.Raw, p.Pod), json.Unmarshal(r.Object.Raw, &p.sent)); err != nil {
		return nil, fmt.Errorf("reading the pod: %w", err)
	}
	p.Namespace = r.Namespace
	if exempt(p.Pod) {
		return nil, nil
	}
	p.NewPod = workloadspread.NewPod{ID: p.Name, Revision: workloadspread.RevisionOf(p.Pod), Ordinal: workloadspread.OrdinalOf(p.Name)}
	if p.Name == "" {
		p.ID = string(r.UID)
	}
	o, err := s.find(ctx, p.Pod)
	if err != nil {
		return nil, fmt.Errorf("finding the WorkloadSpread of the pod: %w", err)
	}
	var admitted map[string]any // nil if there is nothing to change
	if o != nil {
		if admitted, err = s.admit(ctx, o, p); err != nil {
			return nil, err
		}
	} else if _, marked := p.Annotations[workloadspread.AnnotationSpread]; marked {
		// It is a copy of another pod, which would be counted when this one is deleted.
		unstructured.RemoveNestedField(p.sent, "metadata", "annotations", workloadspread.AnnotationSpread)
		admitted = p.sent
	}
	if admitted == nil {
		return nil, nil
	}
	return difference(r.Object.Raw, admitted)
}

// difference is the JSON patch that makes the pod that was sent another one.
func difference(raw []byte, fields map[string]any) ([]byte, error) {
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("comparing pods: %w", err)
	}
	patch, err := jsonpatch.CreatePatch(raw, text)
	if err != nil {
		return nil, fmt.Errorf("comparing pods: %w", err)
	}
	return json.Marshal(patch)
}

// exempt reports whether a pod is none of a workload: static pods are mirrored.
func exempt(pod *v1.Pod) bool {
	_, mirrored := pod.Annotations[v1.MirrorPodAnnotationKey]
	return mirrored || !workloadspread.Active(pod)
}

// newPod is a pod that is being created, and what it would be in each subset.
type newPod struct {
	*v1.Pod
	workloadspread.NewPod
	sent      map[string]any // its fields
	prepared  string         // which spec for, as in facts
	inSubset  []injected
	simulated bool
}

type injected struct {
	workloadspread.Injected
	err error // why the patch of the subset is refused
}

// prepare injects the rules of each subset, and asks whether there is room for the pod.
func (s *Server) prepare(ctx context.Context, o *v1alpha1.WorkloadSpread, p *newPod, known *facts) {
	p.prepared, p.inSubset = known.of, make([]injected, len(o.Spec.Subsets))
	pods := make([]*v1.Pod, len(o.Spec.Subsets))
	for i := range o.Spec.Subsets {
		with, err := p.in(o, i, known.Selector)
		p.inSubset[i] = injected{with, err}
		pods[i] = cmp.Or(with.Pod, p.Pod)
	}
	strategy := o.Spec.ScheduleStrategy
	p.simulated = s.o.Simulator != nil && strategy.Type == v1alpha1.ScheduleAdaptive &&
		(strategy.Adaptive == nil || !strategy.Adaptive.DisableSimulationSchedule)
	if p.simulated {
		p.Room = s.o.Simulator.Room(ctx, pods)
	}
}

// in is the pod in a subset, or in none if that is -1.
func (p *newPod) in(o *v1alpha1.WorkloadSpread, i int, selector labels.Selector) (workloadspread.Injected, error) {
	a := workloadspread.Assignment{Name: o.Name}
	if i >= 0 {
		a.Subset = o.Spec.Subsets[i].Name
	}
	if p.Name == "" {
		a.ID = p.ID
	}
	return workloadspread.InjectNew(p.sent, o, i, a, selector)
}

// admit counts the pod and returns it with the rules of its subset.
func (s *Server) admit(ctx context.Context, o *v1alpha1.WorkloadSpread, p *newPod) (map[string]any, error) {
	var a workloadspread.Admission
	found := o
	_, err := s.store.Update(ctx, client.ObjectKeyFromObject(o),
		func(now *v1alpha1.WorkloadSpread, round *store.Round) (*v1alpha1.WorkloadSpreadStatus, bool, error) {
			o = now
			if changed := o.UID != found.UID || o.Generation != found.Generation; o.DeletionTimestamp != nil || changed &&
				len(workloadspread.Validate(&o.Spec, nil)) > 0 {
				return nil, false, errNone
			}
			known, err := s.facts(round, o)
			if err != nil {
				return nil, false, err
			}
			if p.prepared != known.of {
				s.prepare(ctx, o, p, known)
			}
			state := workloadspread.State{Spec: &o.Spec, Status: &o.Status, Workload: known.Workload, Now: s.clock.Now(),
				Counted: known.recounted == round, Absent: known.absent}
			if a = workloadspread.Admit(state, p.NewPod); a.Recount {
				pods, _, err := s.reader.PodsOf(round.Context, o, known.Selector)
				if err != nil {
					return nil, false, err
				}
				state.Status, state.Absent = workloadspread.Recount(state, o.Name, p.Revision, pods)
				state.Counted, known.recounted, known.absent = true, round, state.Absent
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
		return nil, nil // the WorkloadSpread was deleted or broken meanwhile
	case err != nil:
		return nil, err
	}
	out, err := s.answer(o, p, a)
	if p.simulated {
		s.o.Simulator.Decided(cmp.Or(out.Pod, p.Pod), err == nil)
	}
	if err == nil && a.Cost != 0 { // the order of the scale-down does not depend on the controller
		err = unstructured.SetNestedField(out.Fields, strconv.Itoa(int(a.Cost)), "metadata", "annotations", workloadspread.AnnotationCost)
	}
	return out.Fields, err
}

// errNone ends a decision about a WorkloadSpread that has no pods any more.
var errNone = errors.New("the WorkloadSpread has no pods")

// answer is the pod in its subset, or why it is refused.
func (s *Server) answer(o *v1alpha1.WorkloadSpread, p *newPod, a workloadspread.Admission) (workloadspread.Injected, error) {
	switch {
	case a.Subset >= 0 && p.inSubset[a.Subset].err != nil:
		return workloadspread.Injected{}, s.refused(o, workloadspread.ReasonPatchRefused, p.inSubset[a.Subset].err.Error())
	case a.Subset >= 0:
		s.o.Metrics.admissions.WithLabelValues(o.Namespace, o.Name, o.Spec.Subsets[a.Subset].Name).Inc()
		return p.inSubset[a.Subset].Injected, nil
	case a.Refused:
		return workloadspread.Injected{}, s.refused(o, workloadspread.ReasonNoRoom, a.Message+
			": wait until one has, raise maxReplicas, or set whenFull to Admit")
	}
	s.o.Metrics.admissions.WithLabelValues(o.Namespace, o.Name, "").Inc()
	s.say(o, workloadspread.ReasonNoRoom, "a new pod belongs to no subset: "+a.Message)
	return p.in(o, -1, nil)
}

func (s *Server) refused(o *v1alpha1.WorkloadSpread, reason, message string) error {
	s.o.Metrics.refusals.WithLabelValues(reason).Inc()
	s.say(o, reason, "a new pod is refused: "+message)
	return refuse(http.StatusForbidden, metav1.StatusReasonForbidden, "WorkloadSpread %s: %s", o.Name, message)
}
