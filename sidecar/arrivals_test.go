package sidecar_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/evenkeel/evenkeel/expander/grpcexpander/grpcexpanderpb"
	"github.com/evenkeel/evenkeel/fake"
)

// TestTheQuestionIsNotRead: after a pause of the sidecar, Cluster Autoscaler has stopped waiting for
// its question, and increases a group by chance. Nothing is granted, and the next loop is exact.
// A question that is never read does not hold the pods back for longer than one loop.
func TestTheQuestionIsNotRead(t *testing.T) {
	w := newHarness(t, setup{cloud: fake.Config{Groups: zones(0, 0, 0)}})
	ctx := t.Context()
	if err := w.front.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	unread := func() { w.front.Sidecar.Leave(w.front.Sidecar.Arrive(ctx)) }
	increase := func(group string, delta int, want ...int) {
		t.Helper()
		if err := w.front.IncreaseSize(ctx, group, delta); err != nil {
			t.Fatal(err)
		}
		if got := w.sizes(); !slices.Equal(got, want) {
			t.Fatalf("increase of %s by %d: sizes %v, want %v\n%s", group, delta, got, want, w.log())
		}
	}
	unread()
	increase("a", 9, 0, 0, 0)
	if err := w.front.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	arrived := w.front.Sidecar.Arrive(ctx)
	picked, err := w.front.Sidecar.BestOptions(arrived, threeOptions(podsOf("p", 9, 1)))
	w.front.Sidecar.Leave(arrived)
	if err != nil || len(picked) != 1 {
		t.Fatalf("picked %v, error %v", picked, err)
	}
	want := []int{0, 0, 0}
	want[slices.Index([]string{"a", "b", "c"}, picked[0])] = 3
	increase(picked[0], 9, want...)
}

// TestTheQuestionIsNeverRead: three times in a row is no accident, and is granted in full.
func TestTheQuestionIsNeverRead(t *testing.T) {
	w := newHarness(t, setup{cloud: fake.Config{Groups: zones(0, 0, 0)}})
	ctx := t.Context()
	for _, want := range [][]int{{0, 0, 0}, {0, 0, 0}, {9, 0, 0}} {
		if err := w.front.Refresh(ctx); err != nil {
			t.Fatal(err)
		}
		w.front.Sidecar.Leave(w.front.Sidecar.Arrive(ctx))
		if err := w.front.IncreaseSize(ctx, "a", 9); err != nil {
			t.Fatal(err)
		}
		if got := w.sizes(); !slices.Equal(got, want) {
			t.Fatalf("sizes %v, want %v\n%s", got, want, w.log())
		}
	}
}

// TestAnIncreaseWaitsForTheQuestion: the increase of a loop is read before its question, whose caller
// then stops waiting.
func TestAnIncreaseWaitsForTheQuestion(t *testing.T) {
	x := serve(t, setup{cloud: fake.Config{Groups: zones(0, 0, 0)}}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := grpc.NewClient(x.server.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	front := x.front.Sidecar
	if err := front.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	waiting, stop := context.WithCancel(ctx)
	if _, err := conn.NewStream(waiting, &grpc.StreamDesc{}, grpcexpanderpb.Expander_BestOptions_FullMethodName); err != nil {
		t.Fatal(err)
	}
	for !front.Arriving() {
		if ctx.Err() != nil {
			t.Fatal("the question does not arrive")
		}
	}
	increased := make(chan error)
	go func() { increased <- front.IncreaseSize(ctx, "a", 9) }()
	stop()
	if err := <-increased; err != nil {
		t.Fatal(err)
	}
	if got := x.sizes(); !slices.Equal(got, []int{0, 0, 0}) {
		t.Errorf("sizes %v\n%s", got, x.log())
	}
}
