package simulate

import (
	"context"
	"errors"
	"testing"
)

// A run that is called off says what has happened so far.
func TestAnInterruptedRunReportsWhatIsKnown(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	report, err := Run(ctx, fleet(10, 500, 20), func(p Progress) {
		if p.Rounds == 2 && p.Step.Doing == "" { // after it; in the first one the pods are too new
			stop()
		}
	})
	if !errors.Is(err, context.Canceled) || report == nil {
		t.Fatal(report, err)
	}
	if s := report.Status; !s.Interrupted || s.Holds || s.Rounds != 2 || s.NodesOrdered == 0 || len(s.Groups) != 10 || s.Pending != 500 {
		t.Errorf("interrupted %t, holds %t, %d rounds, %d nodes ordered, %d groups, %d pods pending",
			s.Interrupted, s.Holds, s.Rounds, s.NodesOrdered, len(s.Groups), s.Pending)
	}
}
