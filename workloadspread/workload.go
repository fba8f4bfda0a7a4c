package workloadspread

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// The kinds whose controllers are known; any other one says by paths how many replicas it asks for.
var (
	deploymentKind  = schema.GroupKind{Group: "apps", Kind: "Deployment"}
	replicaSetKind  = schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}
	statefulSetKind = schema.GroupKind{Group: "apps", Kind: "StatefulSet"}
	jobKind         = schema.GroupKind{Group: "batch", Kind: "Job"}
)

func kindOf(spec *v1alpha1.WorkloadSpreadSpec) schema.GroupKind {
	return schema.FromAPIVersionAndKind(spec.TargetRef.APIVersion, spec.TargetRef.Kind).GroupKind()
}

func isKnown(spec *v1alpha1.WorkloadSpreadSpec) bool {
	return slices.Contains([]schema.GroupKind{deploymentKind, replicaSetKind, statefulSetKind, jobKind}, kindOf(spec))
}

// FilterOf selects the pods of the workload that a WorkloadSpread has.
func FilterOf(spec *v1alpha1.WorkloadSpreadSpec) (labels.Selector, error) {
	if f := spec.TargetFilter; f != nil && f.Selector != nil {
		return f.Selector.AsSelector()
	}
	return labels.Everything(), nil
}

// Workload is what is known of the target.
type Workload struct {
	// Found is false if there is no such object.
	Found bool
	// Problem is why it could not be read; empty if it could. Nothing else is known then.
	Problem string
	// Replicas is how many pods there should be. It should be read when a pod is admitted, not from a
	// cache, where limits depend on it: under percentages, minimums, Even and Weighted.
	Replicas int32
	// Surge is how many pods more there may be during a rollout.
	Surge int32
	// Start is the first ordinal of a StatefulSet.
	Start int32
	// Revision is the revision that new pods have; empty if it is not known, or there is one only.
	Revision string
	// Selector is how the workload finds its pods; nil if it does not say so.
	Selector labels.Selector
}

// Observe reads the target. Its revision is not in the object: the caller adds it. The error names
// the field that cannot be read.
//
// A Job needs as many pods as may run at once, but no more than completions are missing. A
// StatefulSet may have any partition: its pods keep their subset by ordinal, whatever their
// revision.
func Observe(spec *v1alpha1.WorkloadSpreadSpec, object map[string]any) (Workload, error) {
	w := Workload{Found: true, Selector: SelectorOf(object)}
	if f := spec.TargetFilter; f != nil && len(f.ReplicasPathList) > 0 {
		var sum int64
		for _, path := range f.ReplicasPathList {
			n, err := replicasAt(object, path, 0)
			if err != nil {
				return Workload{}, err
			}
			sum = min(sum+int64(n), math.MaxInt32)
		}
		w.Replicas = int32(sum)
		return w, nil
	}
	var errs []error
	read := func(path string, otherwise int32) int32 {
		n, err := replicasAt(object, path, otherwise)
		errs = append(errs, err)
		return n
	}
	switch kindOf(spec) {
	case jobKind:
		w.Replicas = max(0, min(read("spec.parallelism", 1), read("spec.completions", math.MaxInt32)-read("status.succeeded", 0)))
	case deploymentKind:
		var err error
		w.Replicas = read("spec.replicas", 1)
		w.Surge, err = surge(object, w.Replicas)
		errs = append(errs, err)
	default:
		w.Replicas, w.Start = read("spec.replicas", 1), read("spec.ordinals.start", 0)
	}
	if err := errors.Join(errs...); err != nil {
		return Workload{}, err
	}
	return w, nil
}

// SelectorOf is how a workload finds its pods; nil if that is not a label selector.
func SelectorOf(object map[string]any) labels.Selector {
	found, ok := at(object, "spec.selector").(map[string]any)
	var says metav1.LabelSelector
	if !ok || runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(found, &says, true) != nil {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(&says)
	if err != nil {
		return nil
	}
	return selector
}

// surge is spec.strategy.rollingUpdate.maxSurge of a Deployment, where 25% is the default.
func surge(object map[string]any, replicas int32) (int32, error) {
	if kind, _ := at(object, "spec.strategy.type").(string); kind == "Recreate" {
		return 0, nil
	}
	const path = "spec.strategy.rollingUpdate.maxSurge"
	value := intstr.FromString("25%")
	if is := at(object, path); is != nil {
		value = intstr.Parse(fmt.Sprint(is))
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(&value, int(replicas), true)
	if err != nil || n < 0 || n > math.MaxInt32 {
		return 0, fmt.Errorf("%s: %q is not a number or percentage", path, value.String())
	}
	return int32(n), nil
}

// replicasAt reads a number of replicas at a path.
func replicasAt(object map[string]any, path string, otherwise int32) (int32, error) {
	value := at(object, path)
	if value == nil {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(fmt.Sprint(value), 10, 31)
	if _, text := value.(string); err != nil || text {
		return 0, fmt.Errorf("%s: %v is not a number of replicas", path, value)
	}
	return int32(n), nil
}

// at is the value at a path, such as spec.parts.0.replicas; nil if there is none.
func at(object map[string]any, path string) any {
	var value any = object
	for name := range strings.SplitSeq(path, ".") {
		switch v := value.(type) {
		case map[string]any:
			value = v[name]
		case []any:
			i, err := strconv.ParseUint(name, 10, 31)
			if err != nil || i >= uint64(len(v)) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

func number(n int32) string { return strconv.Itoa(int(n)) }
