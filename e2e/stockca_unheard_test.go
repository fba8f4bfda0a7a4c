package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/autoscaler"
)

// The sidecar is stopped right after a question. The autoscaler waits five seconds for the answer
// and increases a group by chance; then the sidecar goes on. The sizes are those of one exact split
// all the same.
func TestStockAutoscalerDoesNotHearTheExpander(t *testing.T) {
	autoscaler.Binary(t)
	// The increase comes when the deadline of the question is over, and has one of its own.
	const frozen = 5500 * time.Millisecond
	for _, pods := range []int{30, 9} {
		t.Run(fmt.Sprint(pods, " pods"), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			defer cancel()
			w := startTrial(ctx, t, trial{
				groups: zones("m", 40, 0, 0, 0), demands: []demand{{machine: "m", pods: pods, perNode: 1}}, boot: 10 * time.Second,
				question: frozenFor(t, frozen),
			}, true)
			w.play(ctx, t)
			w.check(ctx, t)
			first := autoscaler.Increases(w.asked.Calls())[0]
			if waited := first.Ended.Sub(w.began); waited < frozen {
				t.Errorf("the first increase was answered after %s: the sidecar was not stopped before", waited)
			}
		})
	}
}

// frozenFor stops the sidecar, or the expander, for a time.
func frozenFor(t *testing.T, long time.Duration) func(w *trialRun) {
	return func(w *trialRun) {
		if err := w.sidecar.Pause(); err != nil {
			t.Error(err)
		}
		time.AfterFunc(long, func() { _ = w.sidecar.Resume() }) // an error says that it has ended
	}
}

// All members refuse for 150 seconds, at once or after a while. There is never more on order than
// the pods need, the set is asked again when its backoff is over, and then all pods run.
func TestStockAutoscalerOrdersNoMoreThanTheNeed(t *testing.T) {
	autoscaler.Binary(t)
	const refusing, pods = 150 * time.Second, 9
	for _, takes := range []time.Duration{0, 40 * time.Second} {
		t.Run(fmt.Sprint("refused after ", takes), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
			defer cancel()
			window := v1alpha1.FaultWindow{Until: &metav1.Duration{Duration: refusing}}
			faults := v1alpha1.ScenarioFaults{StockOuts: []v1alpha1.StockOut{{FaultWindow: window}}}
			if takes > 0 {
				faults.Calls = []v1alpha1.CallFault{{Methods: []string{"IncreaseSize"}, FaultWindow: window, Delay: &metav1.Duration{Duration: takes}}}
			}
			w := startTrial(ctx, t, trial{
				groups: zones("m", 20, 0, 0, 0), demands: []demand{{machine: "m", pods: pods, perNode: 1}}, boot: 5 * time.Second,
				sidecarFlags: []string{"--initial-node-group-backoff-duration=1m", "--max-node-group-backoff-duration=1m"},
				faults:       faults,
			}, true)
			w.play(ctx, t)
			w.tell(ctx, t)
			increases := slices.DeleteFunc(w.ordered.Calls(), func(c autoscaler.Call) bool { return c.Method != autoscaler.IncreaseSize })
			most, refused := 0, 0
			for _, now := range increases {
				onOrder := 0
				for _, c := range increases {
					if !c.At.After(now.At) && (c.OK || !c.Ended.Before(now.At)) {
						onOrder += c.Delta
					}
				}
				most = max(most, onOrder)
				if !now.OK {
					refused++
				}
			}
			t.Logf("at most %d nodes on order at once, %d refusals", most, refused)
			if most > pods || refused < 3 {
				t.Errorf("at most %d nodes on order at once for %d pods, after %d refusals", most, pods, refused)
			}
		})
	}
}
