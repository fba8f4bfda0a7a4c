package reconcile

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/balancer"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/internal/controller/scale"
	"github.com/evenkeel/evenkeel/replica"
)

// errNotRead is why a target could not be read or written.
var errNotRead = errors.New("the target was not read")

func TestMovesThatWereNotMadeDoNotCount(t *testing.T) {
	before, decided := replica.MovesUntil(start, 1), replica.MovesUntil(start.Add(time.Second), 4)
	now := start.Add(5 * time.Second)
	leaves := balancer.Write{From: 9, To: 5, Moves: 3} // one of the four does not run
	held := leaves
	held.To = 7
	for name, c := range map[string]struct {
		done outcomes
		want *v1alpha1.ReplicaMoves
	}{
		"no writes":      {nil, decided},
		"no moves":       {outcomes{{Write: balancer.Write{From: 3, To: 1}, wanted: 1}}, decided},
		"all left":       {outcomes{{Write: leaves, wanted: 5}}, replica.MovesUntil(now, 4)},
		"it failed":      {outcomes{{Write: leaves, wanted: 5, err: errNotRead}}, before},
		"some held back": {outcomes{{Write: held, wanted: 5}}, replica.MovesUntil(now, 2)},
		"one of two fails": {outcomes{{Write: leaves, wanted: 5}, {Write: balancer.Write{From: 1, Moves: 1}, err: errNotRead}},
			replica.MovesUntil(now, 3)},
		"not known": {outcomes{{Write: leaves, wanted: 5, err: &scale.Error{Reason: scale.ReasonUnavailable, Err: errors.New("timeout")}}},
			replica.MovesUntil(now, 4)},
	} {
		if got := c.done.moves(before, decided, now); *got != *c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := outcomes(nil).moves(before, nil, now); got != nil {
		t.Errorf("%v, but there is no limit any more", got)
	}
}

// skewed has six replicas on a, where three should be, and on b as many as run there; two may move
// per minute.
func skewed(t *testing.T) *bench {
	t.Helper()
	web := balancerOf("web", 6, "a", "b")
	web.Spec.Policy.MaxMovesPerMinute = new(int32(2))
	b := newBench(t, append(append(pods("a", 6), pods("b", 2)...), web)...)
	b.server.deploy("a", 6)
	b.server.deploy("b", 2)
	return b
}

func (b *bench) moved(want *v1alpha1.ReplicaMoves) {
	b.t.Helper()
	got := b.get("web").Status.Moves
	if got == nil || want == nil {
		if got != want {
			b.t.Errorf("the status has moves %v, want %v", got, want)
		}
		return
	}
	if got.Count != want.Count || !got.LastTime.Equal(&want.LastTime) {
		b.t.Errorf("the status has moves %v, want %v", got, want)
	}
}

func (b *bench) after(d time.Duration) { b.clock.SetTime(start.Add(d)) }

func TestMovesSurviveARestart(t *testing.T) {
	b := skewed(t)
	b.pass("web")
	b.wrote("b=3 a=4")
	b.moved(replica.MovesUntil(start, 2))
	if err := b.client.Create(t.Context(), running("b-2", map[string]string{"app": "web", "target": "b"})); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a-4", "a-5"} {
		if err := b.client.Delete(t.Context(), running(name, nil)); err != nil {
			t.Fatal(err)
		}
	}
	b.after(time.Minute - 1)
	b.restart()
	if again := b.pass("web"); again != time.Millisecond {
		t.Errorf("the next pass is in %s, want it when the minute is over", again)
	}
	b.wrote("")
	b.moved(replica.MovesUntil(start, 2))
	b.after(time.Minute)
	b.pass("web")
	b.wrote("a=3")
	b.moved(replica.MovesUntil(start.Add(time.Minute), 1))
	b.patches = 0
	b.after(time.Hour)
	b.pass("web")
	if b.patches > 1 { // one says that it is balanced now
		t.Errorf("%d writes of the Balancer", b.patches)
	}
}

// Where there is no limit, moves are not stored ahead.
func TestMovesWithoutLimitAreNotCounted(t *testing.T) {
	b := skewed(t)
	web := b.get("web")
	web.Spec.Policy.MaxMovesPerMinute = nil
	if err := b.client.Update(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	b.pass("web")
	b.wrote("b=3 a=4")
	b.moved(nil)
	if b.patches != 1 {
		t.Errorf("%d writes of the Balancer, want 1", b.patches)
	}
}

func TestMoveThatFailsDoesNotCount(t *testing.T) {
	b := skewed(t)
	b.server.change(func() { b.server.refuse["a"] = http.StatusForbidden })
	b.pass("web")
	b.wrote("b=3")
	b.moved(nil)
}

func conflict() error {
	return apierrors.NewConflict(schema.GroupResource{Group: v1alpha1.Group, Resource: "balancers"}, "web", errors.New("changed"))
}

// Moves are not made if they cannot be stored, and count if nothing else can be stored afterwards.
func TestMovesAreStoredBeforeTheyAreMade(t *testing.T) {
	b := skewed(t)
	b.clock.SetTime(time.Now()) // deadlines are by the real one
	b.refuse = func(int) error { return conflict() }
	if again := b.pass("web"); again != passes.FirstRetry {
		t.Errorf("the next pass is in %s, want %s", again, passes.FirstRetry)
	}
	b.wrote("")

	b.patches = 0
	b.refuse = func(patch int) error {
		if patch == 2 {
			return conflict()
		}
		return nil
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(30*time.Second))
	defer cancel()
	if _, err := b.Reconcile(ctx, passes.Request(balancerOf("web", 0))); err != nil {
		t.Fatal(err)
	}
	b.wrote("b=3 a=4")
	end, _ := ctx.Deadline()
	b.moved(replica.MovesUntil(end, 2))
	b.refuse = nil
	b.pass("web")
	b.wrote("")
	b.moved(replica.MovesUntil(end, 2))
}
