package reconcile

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/evenkeel/evenkeel/deletioncost"
)

// share is the part of the time that passes over one ReplicaSet may take, and lag how late that may
// make them.
const (
	share = 20
	lag   = 5 * time.Second
)

// state is what is remembered of ReplicaSets between passes.
type state struct {
	metrics *Metrics

	mu   sync.Mutex
	sets map[types.NamespacedName]*known
}

// known is what is remembered of a ReplicaSet.
type known struct {
	said   string                // the last event
	took   time.Duration         // of the last decision
	counts func(*v1.Pod) bool    // pods of others; nil if none
	wrote  map[types.UID]*v1.Pod // as the API server answered, until the cache has them
	shown  shown                 // in the metrics
}

func newState(m *Metrics) *state {
	return &state{metrics: m, sets: map[types.NamespacedName]*known{}}
}

// of returns what is remembered. Only the pass over the ReplicaSet may use wrote.
func (s *state) of(key types.NamespacedName) *known {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sets[key] == nil {
		s.sets[key] = &known{wrote: map[types.UID]*v1.Pod{}}
	}
	return s.sets[key]
}

func (s *state) forget(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.sets[key]; k != nil {
		s.show(k, shown{})
	}
	delete(s.sets, key)
}

// show has a ReplicaSet count in the metrics. It is called with the state locked.
func (s *state) show(k *known, now shown) {
	s.metrics.show(k.shown, now)
	k.shown = now
}

// decided notes a decision.
func (s *state) decided(key types.NamespacedName, d *deletioncost.Decision, took time.Duration, counts func(*v1.Pod) bool) {
	k := s.of(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	k.took, k.counts = took, counts
	now := shown{sets: 1, foreign: d.Foreign}
	if d.Reason == deletioncost.Wrong {
		now.uneven = 1
	}
	s.show(k, now)
}

// pause is how long a pass waits for further changes.
func (s *state) pause(key types.NamespacedName) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.sets[key]; k != nil {
		return min(max(settle, share*k.took), lag)
	}
	return settle
}

// counting are the other ReplicaSets of the namespace whose constraints count a pod.
func (s *state) counting(pod *v1.Pod, own types.NamespacedName) (keys []types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, k := range s.sets {
		if key.Namespace == pod.Namespace && key != own && k.counts != nil && k.counts(pod) {
			keys = append(keys, key)
		}
	}
	return keys
}

// latest replaces pods of the cache by what was written later, and forgets what the cache has.
func (k *known) latest(pods []*v1.Pod) []*v1.Pod {
	written := map[types.UID]*v1.Pod{}
	for i, p := range pods {
		w := k.wrote[p.UID]
		if w == nil {
			continue
		}
		if n, err := resourceversion.CompareResourceVersion(p.ResourceVersion, w.ResourceVersion); err != nil || n >= 0 {
			continue
		}
		written[p.UID] = w
		with := *p
		with.Annotations = w.Annotations
		pods[i] = &with
	}
	k.wrote = written
	return pods
}
