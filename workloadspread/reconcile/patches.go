package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/workloadspread/workloads"
)

// tryAgain is how long what the API server has said about patches is good: its policies may change.
const tryAgain = 2 * time.Minute

// trial is what the API server has said about the patches of a WorkloadSpread.
type trial struct {
	about    string // the WorkloadSpread, its generation, and the template of the workload
	problems map[string]string
	until    time.Time
}

// tryPatches asks the API server whether it creates pods of the workload with the patches, when one of them
// has changed, and now and then.
func (r *reconciler) tryPatches(ctx context.Context, s *v1alpha1.WorkloadSpread, workload *unstructured.Unstructured, found *observation) {
	if !slices.ContainsFunc(s.Spec.Subsets, func(o v1alpha1.WorkloadSubset) bool { return o.Patch != nil }) {
		return
	}
	template, _, _ := unstructured.NestedMap(workload.Object, "spec", "template") // of another type it is none
	key, now, about := client.ObjectKeyFromObject(s), r.clock.Now(), fmt.Sprint(s.UID, s.Generation, template)
	before, _ := r.tried.Load(key)
	last, _ := before.(trial)
	if last.about != about || !now.Before(last.until) {
		last = trial{about, workloads.Problems(ctx, r.client, s, workload), now.Add(tryAgain)}
		r.tried.Store(key, last)
	}
	found.patches = last.problems
	for _, problem := range last.problems {
		if problem != "" && (found.poll == 0 || found.poll > tryAgain) {
			found.poll = tryAgain
		}
	}
}
