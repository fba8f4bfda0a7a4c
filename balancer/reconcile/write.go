package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/balancer"
	"github.com/evenkeel/evenkeel/internal/controller/scale"
)

// becauseNotWritten is the reason of the condition Balanced, and of an event, when a size could not be written.
const becauseNotWritten = "NotWritten"

// outcome is what became of a write.
type outcome struct {
	balancer.Write       // as it was made: To is nearer to From where a part was held back
	wanted         int32 // To as it was decided
	err            error
}

// size is what the target has now.
func (o outcome) size() int32 {
	if o.err != nil {
		return o.From
	}
	return o.To
}

type outcomes []outcome

// failed tells whether anything was not written as it was decided.
func (done outcomes) failed() bool {
	return slices.ContainsFunc(done, func(o outcome) bool { return o.size() != o.wanted })
}

// refused tells whether a write failed for another reason than that the target changed meanwhile.
func (done outcomes) refused() bool {
	return slices.ContainsFunc(done, func(o outcome) bool { return o.err != nil && scale.ReasonOf(o.err) != scale.ReasonConflict })
}

// overtaken tells whether a write failed because the target changed meanwhile.
func (done outcomes) overtaken() bool {
	return slices.ContainsFunc(done, func(o outcome) bool { return scale.ReasonOf(o.err) == scale.ReasonConflict })
}

// moves is how many replicas were moved, and how many more were to be. What may have been written counts as if it was.
func (o outcome) moves() (made, failed int32) {
	made = o.Moves
	switch {
	case scale.ReasonOf(o.err) == scale.ReasonUnavailable:
	case o.size() > o.wanted: // those are held back first
		made = max(0, made-(o.size()-o.wanted))
	}
	return made, o.Moves - made
}

// moves is the count of moves to store: that of the decision, less those that were not made. Those made are of now.
func (done outcomes) moves(before, decided *v1alpha1.BalancerMoves, now time.Time) *v1alpha1.BalancerMoves {
	var made, failed int32
	for _, o := range done {
		m, f := o.moves()
		made, failed = made+m, failed+f
	}
	switch {
	case decided == nil || made+failed == 0:
		return decided
	case made == 0:
		return before
	}
	return balancer.MovesUntil(now, decided.Count-failed)
}

// write makes the writes in their order. One that fails keeps no other from being made, but for as much of those that
// make smaller as it was to replace.
func (r *reconciler) write(ctx context.Context, found *observation, writes []balancer.Write) outcomes {
	down := slices.IndexFunc(writes, func(w balancer.Write) bool { return w.To < w.From })
	if down < 0 {
		down = len(writes)
	}
	done := make(outcomes, 0, len(writes))
	var grown, failed, shrunk int64
	for _, w := range writes[:down] {
		o := outcome{Write: w, wanted: w.To, err: r.scale(ctx, found, w)}
		grown += int64(w.To - w.From)
		if o.err != nil {
			failed += int64(w.To - w.From)
		}
		done = append(done, o)
	}
	for _, w := range writes[down:] {
		shrunk += int64(w.From - w.To)
	}
	for i, w := range hold(writes[down:], replaced(grown, shrunk, failed)) {
		o := outcome{Write: w, wanted: writes[down+i].To}
		if w.To != w.From {
			o.err = r.scale(ctx, found, w)
		}
		done = append(done, o)
	}
	return done
}

// replaced is how many of the replicas that failed to be added were to take the place of others, if the growth of the sum
// failed first.
func replaced(grown, shrunk, failed int64) int64 { return max(0, failed-max(0, grown-shrunk)) }

// hold takes n replicas back from writes that make smaller, from the last and least first.
func hold(downs []balancer.Write, n int64) []balancer.Write {
	out := slices.Clone(downs)
	for i := range slices.Backward(out) {
		back := min(n, int64(out[i].From-out[i].To))
		out[i].To += int32(back)
		n -= back
	}
	return out
}

// scale makes one write. If the target has changed since it was read, but asks for as many replicas as it did, it is written
// all the same: the decision is about nothing else of it.
func (r *reconciler) scale(ctx context.Context, found *observation, w balancer.Write) error {
	s, ok := found.scales[w.Target]
	if !ok {
		return errNotRead
	}
	_, err := r.scales.Update(ctx, s, w.To)
	if scale.ReasonOf(err) == scale.ReasonConflict {
		// Mostly it is but the status of the target that has changed: it does so with every pod that comes or goes.
		now, unread := r.scales.Get(ctx, s.Namespace, s.Reference)
		if unread == nil && now.UID == s.UID && now.Replicas == w.From {
			_, err = r.scales.Update(ctx, now, w.To)
		}
	}
	r.metrics.wrote(w, err)
	return err
}

// settle corrects the status that a decision gave as if all writes were made. They ended now.
func (done outcomes) settle(in *balancer.Input, status v1alpha1.BalancerStatus, now time.Time) v1alpha1.BalancerStatus {
	status.Moves = done.moves(in.Status.Moves, status.Moves, now)
	if !done.failed() {
		return status
	}
	status = *status.DeepCopy()
	var problems []string
	for _, o := range done {
		if o.size() == o.wanted {
			continue
		}
		i := slices.IndexFunc(status.Targets, func(t v1alpha1.BalancerTargetStatus) bool { return t.Name == o.Target })
		t := &status.Targets[i]
		t.Current = o.size()
		if t.Running >= t.Current {
			t.BelowSizeSince = nil // nothing is missing that was asked for
		}
		if o.err != nil {
			t.Message = fmt.Sprintf("it could not be given %d replicas: %v", o.To, o.err)
			problems = append(problems, o.Target+": "+t.Message)
		}
	}
	// The decision may have called it balanced: the time of the condition goes by what was stored, not by that.
	since := metav1.NewTime(in.Now.Truncate(time.Second))
	if was := meta.FindStatusCondition(in.Status.Conditions, v1alpha1.ConditionBalanced); was != nil && was.Status == metav1.ConditionFalse {
		since = was.LastTransitionTime
	}
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionBalanced); c != nil {
		c.Status, c.Reason, c.Message, c.LastTransitionTime = metav1.ConditionFalse, becauseNotWritten, strings.Join(problems, "; "), since
	}
	return status
}

// notWritten is what the status says of sizes that could not be written; empty if there are none.
func notWritten(s v1alpha1.BalancerStatus) string {
	if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionBalanced); c != nil && c.Reason == becauseNotWritten {
		return c.Message
	}
	return ""
}

// tellWrites tells of the writes that were made.
func (r *reconciler) tellWrites(ctx context.Context, b *v1alpha1.Balancer, done outcomes) {
	log := logr.FromContextOrDiscard(ctx)
	for _, o := range done {
		switch {
		case scale.ReasonOf(o.err) == scale.ReasonConflict:
			log.V(2).Info("Target changed meanwhile", "target", o.Target)
		case o.err != nil:
			log.Info("Could not rescale", "target", o.Target, "from", o.From, "to", o.To, "problem", o.err.Error())
		case o.To != o.From:
			log.Info("Rescaled", "target", o.Target, "from", o.From, "to", o.To, "why", o.Why)
			r.event(b, o.Target, v1.EventTypeNormal, balancer.EventRescaled, fmt.Sprintf("target %s: from %d to %d replicas: %s", o.Target, o.From, o.To, o.Why))
		}
	}
}

// sizes are those that were written to the targets of Balancers, by name. The zero value has none.
type sizes struct {
	mu sync.Mutex
	of map[types.NamespacedName]map[string]int32
}

// add notes what was written, and what may have been.
func (s *sizes) add(key types.NamespacedName, done outcomes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range done {
		if o.err != nil && scale.ReasonOf(o.err) != scale.ReasonUnavailable {
			continue
		}
		if s.of == nil {
			s.of = map[types.NamespacedName]map[string]int32{}
		}
		if s.of[key] == nil {
			s.of[key] = map[string]int32{}
		}
		s.of[key][o.Target] = o.To
	}
}

// size is what was written to a target; nil for nothing.
func (s *sizes) size(key types.NamespacedName, target string) *int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n, ok := s.of[key][target]; ok {
		return &n
	}
	return nil
}

func (s *sizes) drop(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, key)
}
