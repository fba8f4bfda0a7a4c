package federation

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// Resources are amounts of what a cluster has and pods ask for.
type Resources struct {
	MilliCPU, Memory, Pods int64
}

// RequestsOf are the requests of one pod of a template, and one pod.
func RequestsOf(t *v1alpha1.PodTemplate) (Resources, error) {
	pod := &v1.Pod{}
	if err := json.Unmarshal(t.Spec.Raw, &pod.Spec); err != nil {
		return Resources{}, fmt.Errorf("spec.template.spec: %w", err)
	}
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	return Resources{MilliCPU: requests.Cpu().MilliValue(), Memory: requests.Memory().Value(), Pods: 1}, nil
}

// times is the resources of n pods.
func (r Resources) times(n int64) Resources {
	return Resources{MilliCPU: saturating(r.MilliCPU, n), Memory: saturating(r.Memory, n), Pods: saturating(r.Pods, n)}
}

func saturating(a, n int64) int64 {
	if n > 0 && a > math.MaxInt64/n {
		return math.MaxInt64
	}
	return a * n
}

// room is how many pods fit into free resources.
func (r Resources) room(free Resources) int32 {
	n := int64(math.MaxInt32)
	for _, x := range [][2]int64{{r.MilliCPU, free.MilliCPU}, {r.Memory, free.Memory}, {r.Pods, free.Pods}} {
		if x[0] > 0 {
			n = min(n, max(0, x[1])/x[0])
		}
	}
	return clip(n)
}

// Ledger knows what decisions have used up of the clusters' room before their pods show it. Without
// it, many objects that are scaled at the same time would all choose the same room. It is not safe
// for use by several goroutines.
type Ledger struct {
	lifetime time.Duration
	assumed  map[string]map[string]assumption // by cluster and object
}

// assumption is what the pods of an object will use that do not run yet.
type assumption struct {
	Resources
	until time.Time
}

// NewLedger returns an empty ledger. An assumption that nothing confirms ends after the lifetime:
// pods that have not started until then use nothing.
func NewLedger(lifetime time.Duration) *Ledger {
	return &Ledger{lifetime: lifetime, assumed: map[string]map[string]assumption{}}
}

// Decide is [Decide] where the free resources of some clusters are known, by their names: without
// what the pods use that run, but nothing else taken away. What other objects were given a moment ago
// is taken away, and what this decision gives is remembered.
func (l *Ledger) Decide(in Input, free map[string]Resources) (Decision, error) {
	pod, err := RequestsOf(&in.Spec.Template)
	if err != nil { // the clusters refuse such a pod
		return Decide(in)
	}
	clusters := make([]Cluster, len(in.Clusters))
	for i, c := range in.Clusters {
		if known, ok := free[c.Name]; ok {
			c.Room = new(pod.room(l.left(known, c.Name, in.Key, in.Now)))
		}
		clusters[i] = c
	}
	in.Clusters = clusters
	d, err := Decide(in)
	if err != nil {
		return d, err
	}
	l.Forget(in.Key)
	for _, s := range d.Status.Clusters {
		if starting := int64(s.Written - s.Pending - s.Running); starting > 0 {
			l.assume(s.Name, in.Key, assumption{pod.times(starting), in.Now.Add(l.lifetime)})
		}
	}
	return d, nil
}

// Forget drops what is assumed about an object, which may have been deleted.
func (l *Ledger) Forget(key string) {
	for _, objects := range l.assumed {
		delete(objects, key)
	}
}

func (l *Ledger) assume(cluster, key string, a assumption) {
	if l.assumed[cluster] == nil {
		l.assumed[cluster] = map[string]assumption{}
	}
	l.assumed[cluster][key] = a
}

// left is what other objects leave of free resources.
func (l *Ledger) left(free Resources, cluster, key string, now time.Time) Resources {
	for other, a := range l.assumed[cluster] {
		switch {
		case !now.Before(a.until):
			delete(l.assumed[cluster], other)
		case other != key:
			free.MilliCPU, free.Memory, free.Pods = free.MilliCPU-a.MilliCPU, free.Memory-a.Memory, free.Pods-a.Pods
		}
	}
	return free
}
