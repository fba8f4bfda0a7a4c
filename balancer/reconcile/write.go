package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/balancer"
	"github.com/evenkeel/evenkeel/internal/controller/scale"
	"github.com/evenkeel/evenkeel/podhealth"
	"github.com/evenkeel/evenkeel/replica"
)

// reasonNotWritten is the reason of the condition Balanced and of an event if a size could not be
// written.
const reasonNotWritten = "NotWritten"

type outcome struct {
	balancer.Write       // as it was made: To is nearer to From if a part was held back
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

// failed reports whether the size was not written as it was decided.
func (o outcome) failed() bool { return o.size() != o.wanted }

// refused reports whether the write failed for another reason than a change of the target meanwhile.
func (o outcome) refused() bool { return o.err != nil && !o.overtaken() }

// overtaken reports whether the write failed because the target changed meanwhile.
func (o outcome) overtaken() bool { return scale.ReasonOf(o.err) == scale.ReasonConflict }

type outcomes []outcome

// moves is how many replicas were moved, and how many were to be moved but were not. A write of
// unknown result counts as made.
func (o outcome) moves() (made, failed int32) {
	made = o.Moves
	switch {
	case scale.ReasonOf(o.err) == scale.ReasonUnavailable:
	case o.size() > o.wanted: // those are held back first
		made = max(0, made-(o.size()-o.wanted))
	}
	return made, o.Moves - made
}

// moves is the count of moves to store: that of the decision, less those that were not made. The
// others were made now.
func (done outcomes) moves(before, decided *v1alpha1.ReplicaMoves, now time.Time) *v1alpha1.ReplicaMoves {
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
	return replica.MovesUntil(now, decided.Count-failed)
}

// write makes the writes in their order. If one that makes a target larger fails, as many replicas
// as it was to replace stay where they are; nothing else is held back.
func (r *reconciler) write(ctx context.Context, found *observation, writes []balancer.Write) outcomes {
	down := slices.IndexFunc(writes, func(w balancer.Write) bool { return w.To < w.From })
	if down < 0 {
		down = len(writes)
	}
	var failed, change int64
	for _, w := range writes {
		change += int64(w.To) - int64(w.From)
	}
	done := r.make(ctx, found, writes[:down], writes[:down])
	for _, o := range done {
		if o.err != nil {
			failed += int64(o.To) - int64(o.From)
		}
	}
	return append(done, r.make(ctx, found, hold(writes[down:], replaced(change, failed)), writes[down:])...)
}

// make makes writes, of which parts may be held back.
func (r *reconciler) make(ctx context.Context, found *observation, writes, decided []balancer.Write) outcomes {
	done := make(outcomes, 0, len(writes))
	for i, w := range writes {
		o := outcome{Write: w, wanted: decided[i].To}
		if w.To != w.From {
			o.err = r.scale(ctx, found, w)
		}
		done = append(done, o)
	}
	return done
}

// replaced is how many of the replicas that could not be added were to replace others. Those by
// which the sum was to grow count as failed first.
func replaced(change, failed int64) int64 { return max(0, failed-max(0, change)) }

// hold reduces writes that make targets smaller by n replicas in all, beginning with the last and
// smallest.
func hold(downs []balancer.Write, n int64) []balancer.Write {
	out := slices.Clone(downs)
	for i := range slices.Backward(out) {
		back := min(n, int64(out[i].From-out[i].To))
		out[i].To += int32(back)
		n -= back
	}
	return out
}

// scale makes one write. If the target has changed since it was read but still has the same size,
// it is written nevertheless: the decision depends on nothing else.
func (r *reconciler) scale(ctx context.Context, found *observation, w balancer.Write) error {
	s := found.scales[w.Target] // none is decided for a target that was not read
	_, err := r.scales.Update(ctx, s, w.To)
	if scale.ReasonOf(err) == scale.ReasonConflict {
		// Usually only the status of the target has changed, as it does with every pod that comes
		// or goes.
		now, unread := r.scales.Get(ctx, s.Namespace, s.Reference)
		if unread == nil && now.UID == s.UID && now.Replicas == w.From {
			_, err = r.scales.Update(ctx, now, w.To)
		}
	}
	r.metrics.wrote(w, err)
	return err
}

// correct corrects the status of the decision, which assumes that all writes succeed. The writes
// ended now.
func (done outcomes) correct(in *balancer.Input, status v1alpha1.BalancerStatus, now time.Time) v1alpha1.BalancerStatus {
	status.Moves = done.moves(in.Status.Moves, status.Moves, now)
	if !slices.ContainsFunc(done, outcome.failed) {
		return status
	}
	status = *status.DeepCopy()
	var problems []string
	for _, o := range done {
		if !o.failed() {
			continue
		}
		i := slices.IndexFunc(status.Targets, func(t v1alpha1.BalancerTargetStatus) bool { return t.Name == o.Target })
		t := &status.Targets[i]
		t.Current = o.size()
		if t.Running >= t.Current {
			t.BelowSizeSince = nil // all that the target asks for runs
		}
		if o.err != nil {
			t.Message = fmt.Sprintf("it could not be scaled to %d replicas: %v", o.To, o.err)
			problems = append(problems, o.Target+": "+t.Message)
		}
	}
	// The decision may have called the Balancer balanced. The time of the condition depends on what
	// was stored before.
	failed := podhealth.Condition(v1alpha1.ConditionBalanced, false, reasonNotWritten, strings.Join(problems, "; "))
	dated := podhealth.Conditions(in.Status.Conditions, []metav1.Condition{failed}, in.Generation, in.Now)
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionBalanced); c != nil {
		*c = *meta.FindStatusCondition(dated, v1alpha1.ConditionBalanced)
	}
	return status
}

// notWritten is the message of the status about sizes that could not be written; empty if there are
// none.
func notWritten(s v1alpha1.BalancerStatus) string {
	if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionBalanced); c != nil && c.Reason == reasonNotWritten {
		return c.Message
	}
	return ""
}

// recordWrites logs the writes that were made, and records events about them.
func (r *reconciler) recordWrites(ctx context.Context, b *v1alpha1.Balancer, done outcomes) {
	log := logr.FromContextOrDiscard(ctx)
	for _, o := range done {
		switch {
		case o.overtaken():
			log.V(2).Info("Target changed meanwhile", "target", o.Target)
		case o.err != nil:
			log.Info("Could not rescale", "target", o.Target, "from", o.From, "to", o.To, "problem", o.err.Error())
		case o.To != o.From:
			log.Info("Rescaled", "target", o.Target, "from", o.From, "to", o.To, "why", o.Why)
			r.event(b, o.Target, v1.EventTypeNormal, balancer.ReasonRescaled, fmt.Sprintf("target %s: from %d to %d replicas: %s", o.Target, o.From,
				o.To, o.Why))
		}
	}
}

// noteIn notes the sizes that were written or may have been, by target.
func (done outcomes) noteIn(sizes map[string]int32) {
	for _, o := range done {
		if o.err == nil || scale.ReasonOf(o.err) == scale.ReasonUnavailable {
			sizes[o.Target] = o.To
		}
	}
}
