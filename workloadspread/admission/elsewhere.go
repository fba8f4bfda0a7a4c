package admission

import (
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// creation is how long after its admission a pod is expected to be created and seen.
const creation = 10 * time.Second

// elsewhere has the Simulator hold room for pods that other servers have admitted: the status of their
// WorkloadSpread names them until they are seen.
type elsewhere struct {
	simulator Simulator
	clock     clock.PassiveClock

	mu sync.Mutex
	of map[types.UID]*heard // by WorkloadSpread
}

// heard is what the Simulator knows of the pods of a WorkloadSpread that are being created.
type heard struct {
	pods    map[string]time.Time // that it knows, own ones and others, by ID, and since when
	counted int32                // how many pods the controller has seen
	news    int                  // how often there was something new
	version string               // of the newest WorkloadSpread that was looked at
}

// hear tells the Simulator which pods are being created elsewhere, and returns how often it had news: such
// pods, or ones that came and were counted before their creation was heard of. They are taken to be like
// the new pod, which the Simulator learns of by itself.
func (e *elsewhere) hear(o *v1alpha1.WorkloadSpread, p *newPod) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	h, now := e.of[o.UID], e.clock.Now()
	if h == nil {
		h = &heard{pods: map[string]time.Time{}}
		e.of[o.UID] = h
	}
	h.pods[p.ID] = now
	if order, err := resourceversion.CompareResourceVersion(o.ResourceVersion, h.version); err == nil && order <= 0 {
		return h.news // what was added since is its own
	}
	h.version = o.ResourceVersion
	counted := int32(0)
	maps.DeleteFunc(h.pods, func(_ string, since time.Time) bool { return now.Sub(since) >= creation })
	for _, row := range o.Status.VersionedSubsetStatuses {
		for i := range row {
			subset := slices.IndexFunc(o.Spec.Subsets, func(s v1alpha1.WorkloadSubset) bool { return s.Name == row[i].Name })
			counted += row[i].Replicas
			for id, at := range row[i].CreatingPods {
				if _, known := h.pods[id]; known || subset < 0 || now.Sub(at.Time) >= creation {
					continue
				}
				h.pods[id] = now
				h.news++
				e.simulator.Decided(p.like(o, subset, id, at), true)
			}
		}
	}
	if counted != h.counted {
		h.counted = counted
		h.news++
	}
	return h.news
}

// like is a pod with another ID, in a subset, as it would be if it were like the new one.
func (p *newPod) like(o *v1alpha1.WorkloadSpread, subset int, id string, at metav1.Time) *v1.Pod {
	out, other := *p.simulated[subset], newPod{NewPod: workloadspread.NewPod{ID: id}, generated: p.generated}
	if !p.generated {
		out.Name = id
	}
	out.Annotations = maps.Clone(out.Annotations)
	metav1.SetMetaDataAnnotation(&out.ObjectMeta, workloadspread.AnnotationSpread, other.assignment(o, o.Spec.Subsets[subset].Name).String())
	out.CreationTimestamp = at
	return &out
}

// forget drops what is known of a WorkloadSpread that was deleted.
func (e *elsewhere) forget(uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.of, uid)
}
