package reconcile

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/workloadspread/dryrun"
)

const (
	// tryFitting is how long a patch fits that the API server has accepted: its policies may change.
	tryFitting = 10 * time.Minute
	// tryRefused is how soon one is tried again that it has refused, or has not answered about.
	tryRefused = time.Minute
)

// trial is what the API server has said about the patches of a WorkloadSpread.
type trial struct {
	uid        types.UID
	generation int64
	template   [sha256.Size]byte // of the workload
	problems   map[string]string
	until      time.Time
}

// tryPatches asks the API server whether it creates pods of the workload with the patches, when one of them
// has changed, and now and then.
func (r *reconciler) tryPatches(ctx context.Context, s *v1alpha1.WorkloadSpread, workload *unstructured.Unstructured, found *sight) {
	if !slices.ContainsFunc(s.Spec.Subsets, func(o v1alpha1.WorkloadSubset) bool { return o.Patch != nil }) {
		return
	}
	template, _, _ := unstructured.NestedMap(workload.Object, "spec", "template") // of another type it is none
	text, err := json.Marshal(template)
	if err != nil {
		return // it was read as JSON
	}
	key, now := client.ObjectKeyFromObject(s), r.clock.Now()
	next := trial{uid: s.UID, generation: s.Generation, template: sha256.Sum256(text)}
	before, _ := r.tried.Load(key)
	last, _ := before.(trial)
	if last.uid != next.uid || last.generation != next.generation || last.template != next.template || !now.Before(last.until) {
		next.problems, next.until = dryrun.Problems(ctx, r.client, s, workload), now.Add(tryFitting)
		for i := range s.Spec.Subsets {
			if problem, known := next.problems[s.Spec.Subsets[i].Name]; s.Spec.Subsets[i].Patch != nil && (problem != "" || !known) {
				next.until = now.Add(tryRefused)
			}
		}
		r.tried.Store(key, next)
		last = next
	}
	found.patches = last.problems
	for _, problem := range last.problems {
		if problem != "" && (found.poll == 0 || found.poll > tryRefused) {
			found.poll = tryRefused
		}
	}
}
