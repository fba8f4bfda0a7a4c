package workloads

import (
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// TemplateOf is the template of the pods of a workload; nil if it does not have one.
func TemplateOf(workload *unstructured.Unstructured) *v1.PodTemplateSpec {
	if workload == nil {
		return nil
	}
	found, ok, _ := unstructured.NestedMap(workload.Object, "spec", "template") // another type is none
	template := &v1.PodTemplateSpec{}
	if !ok || runtime.DefaultUnstructuredConverter.FromUnstructured(found, template) != nil || len(template.Spec.Containers) == 0 {
		return nil
	}
	return template
}

// Problems says for each subset with a patch, by name, why a pod of the workload is refused with it; empty if it is not. A
// subset is missing of which that is not known: the API server gives no answer, or refuses the pod without the patch,
// too.
func Problems(ctx context.Context, c client.Client, o *v1alpha1.WorkloadSpread, workload *unstructured.Unstructured) map[string]string {
	template, out := TemplateOf(workload), map[string]string{}
	if template == nil {
		return out
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, GenerateName: "evenkeel-dry-run-", Labels: template.Labels,
		Annotations: template.Annotations}, Spec: template.Spec}
	selector := workloadspread.SelectorOf(workload.Object)
	for i := range o.Spec.Subsets {
		s := &o.Spec.Subsets[i]
		if s.Patch == nil {
			continue
		}
		with, err := workloadspread.Inject(pod, s, workloadspread.Assignment{}, selector)
		if err != nil {
			out[s.Name] = err.Error()
			continue
		}
		plain := *s
		plain.Patch = nil
		without, err := workloadspread.Inject(pod, &plain, workloadspread.Assignment{}, selector)
		if err != nil {
			continue
		}
		switch problem, known := refusal(c.Create(ctx, with, client.DryRunAll)); {
		case known && problem == "":
			out[s.Name] = ""
		case known && c.Create(ctx, without, client.DryRunAll) == nil:
			out[s.Name] = "the API server refuses a pod with the patch: " + problem
		}
	}
	return out
}

// refusal is why a pod is refused; empty if it is not. It is false for errors that say nothing about the pod, such as a quota
// that is used up.
func refusal(err error) (problem string, known bool) {
	switch {
	case err == nil:
		return "", true
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "exceeded quota"), apierrors.IsBadRequest(err):
		return err.Error(), true
	}
	return "", false
}
