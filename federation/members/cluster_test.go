package members

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// In virtual time, over a network in memory.
func inBubble(t *testing.T, play func(*testing.T, *hostHarness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newHostHarness(t, Options{})
		defer w.end()
		play(t, w)
	})
}

func TestClusterIsReadyAsSoonAsItAnswers(t *testing.T) {
	inBubble(t, func(_ *testing.T, w *hostHarness) {
		w.server("a")
		w.after(time.Second)
		w.says("a", fine)
		if s := w.get("a").Status; s.Version != "v1.36.3" || s.ClusterUID != "uid-of-a" || s.LastProbeTime == nil {
			t.Errorf("%+v", s)
		}
	})
}

// A cluster that is asked every ten seconds and does not change costs no write.
func TestNothingIsWrittenWhileNothingChanges(t *testing.T) {
	inBubble(t, func(t *testing.T, w *hostHarness) {
		s := w.server("a")
		w.after(time.Minute)
		writes, probes := w.writes.Load(), s.called("GET /readyz")
		w.after(time.Hour)
		if n := w.writes.Load() - writes; n != 0 {
			t.Errorf("%d writes in an hour", n)
		}
		if got := s.called("GET /readyz") - probes; got < 350 || got > 370 {
			t.Errorf("%d probes in an hour", got)
		}
	})
}

// What was stored a moment ago, and does not show in the cache yet, is neither stored nor reported again.
func TestStatusIsStoredOnceThoughTheCacheIsBehind(t *testing.T) {
	inBubble(t, func(t *testing.T, w *hostHarness) {
		s := w.server("a")
		w.after(time.Second)
		w.stale.Store(w.get("a"))
		writes := w.writes.Load()
		s.set(func(s *server) { s.token = "other" })
		for range 3 {
			w.poke("a")
			w.after(time.Second)
		}
		if n, events := w.writes.Load()-writes, len(w.events.Events); n != 1 || events != 1 {
			t.Errorf("%d writes, %d events", n, events)
		}
		w.stale.Store(nil)
		w.says("a", refused+"Unauthorized")
	})
}

// A loss and a return that time alone brings are reported to the handlers, even if somebody looks at it
// in between.
func TestHandlersLearnWhatTimeBrings(t *testing.T) {
	inBubble(t, func(t *testing.T, w *hostHarness) {
		s := w.server("a")
		w.after(time.Second)
		var mu sync.Mutex
		var states []State
		c := w.members.Get("a")
		w.members.Handle(func(string, *Local) {
			mu.Lock()
			defer mu.Unlock()
			states = append(states, c.View().State)
		})
		look := func(d time.Duration) {
			for range int(d / time.Second) {
				w.after(time.Second)
				c.View()
			}
		}
		w.net.down(at("a"))
		look(2 * time.Minute)
		w.net.up(at("a"), s)
		look(2 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if states = slices.Compact(states); !slices.Equal(states, []State{NotAnswering, Offline, Stabilizing, Ready}) {
			t.Errorf("reported %v", states)
		}
	})
}

func TestShortLossIsNotYetALoss(t *testing.T) {
	inBubble(t, func(_ *testing.T, w *hostHarness) {
		s := w.server("a")
		w.after(time.Second)
		w.net.down(at("a"))
		w.after(30 * time.Second)
		w.says("a", notAnswers)
		w.net.up(at("a"), s)
		w.after(15 * time.Second)
		w.says("a", fine)
	})
}

// It counts as lost a minute after the first probe that failed, and as returned when it has answered
// for a minute.
func TestLongLoss(t *testing.T) {
	inBubble(t, func(t *testing.T, w *hostHarness) {
		s := w.server("a")
		w.after(time.Second)
		w.net.down(at("a"))
		w.after(59 * time.Second)
		w.says("a", notAnswers)
		w.after(11 * time.Second)
		w.says("a", offline)
		w.after(4 * time.Minute)
		w.net.up(at("a"), s)
		w.after(15 * time.Second)
		w.says("a", stabilizes)
		w.after(40 * time.Second)
		w.says("a", stabilizes)
		w.after(20 * time.Second)
		w.says("a", fine)
		for _, want := range []string{"Warning ClusterLost", "Normal ClusterBack"} {
			if got := <-w.events.Events; !strings.HasPrefix(got, want) {
				t.Errorf("event %q, want %s", got, want)
			}
		}
	})
}

// A cluster that answers only now and then does not return.
func TestReturnMustBeStable(t *testing.T) {
	inBubble(t, func(_ *testing.T, w *hostHarness) {
		s := w.server("a")
		w.after(time.Second)
		w.net.down(at("a"))
		w.after(2 * time.Minute)
		for range 5 {
			w.net.up(at("a"), s)
			w.after(35 * time.Second)
			w.says("a", stabilizes)
			w.net.down(at("a"))
			w.after(15 * time.Second)
			w.says("a", offline)
		}
	})
}

// It accepts connections and never answers.
func TestHangCountsAsLossAndDelaysNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, w *hostHarness) {
		s := w.server("a")
		w.server("b")
		w.after(time.Second)
		release := s.hang()
		w.after(20 * time.Second)
		w.says("a", notAnswers)
		w.says("b", fine)
		if _, err := w.members.Get("a").Client(); !errors.Is(err, ErrNotAnswering) {
			t.Errorf("a client of a cluster that does not answer: %v", err)
		}
		w.after(time.Minute)
		w.says("a", offline)
		release()
		w.after(80 * time.Second)
		w.says("a", fine)
	})
}

// What changed while the connection was lost is known when the cluster counts as answering again.
func TestWhatIsThereIsReadAnewAfterALoss(t *testing.T) {
	inBubble(t, func(t *testing.T, w *hostHarness) {
		s := w.server("a")
		s.put("replicasets", replicaSet("web", 3))
		w.after(time.Second)
		c := w.members.Get("a")
		if r := c.ReplicaSet("shop", "web"); r == nil || *r.Spec.Replicas != 3 {
			t.Fatalf("before: %+v", r)
		}
		w.net.down(at("a"))
		w.after(30 * time.Second)
		s.set(func(s *server) { s.watchers = map[string][]chan event{} }) // the watches are broken
		s.put("replicasets", replicaSet("web", 5))
		if r := c.ReplicaSet("shop", "web"); r == nil || *r.Spec.Replicas != 3 {
			t.Fatalf("lost: %+v", r)
		}
		w.net.up(at("a"), s)
		for range 20 {
			w.after(time.Second)
			if c.View().State == Ready {
				break
			}
		}
		if r := c.ReplicaSet("shop", "web"); r == nil || *r.Spec.Replicas != 5 {
			t.Errorf("returned: %+v", r)
		}
	})
}

// The ReplicaSet of a Deployment has the labels of its pods, and is no local object itself.
func TestReplicaSetsOfDeploymentsAreNotLocal(t *testing.T) {
	inBubble(t, func(t *testing.T, w *hostHarness) {
		s := w.server("a")
		w.after(time.Second)
		var mu sync.Mutex
		var changed []string
		w.members.Handle(func(_ string, l *Local) {
			mu.Lock()
			defer mu.Unlock()
			changed = append(changed, l.Name)
		})
		owned := replicaSet("web-5d4", 3)
		owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: Deployment, Name: "web", UID: "1", Controller: new(true)}}
		s.put("replicasets", owned)
		s.put("replicasets", replicaSet("web", 3))
		w.after(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(changed, []string{"web"}) {
			t.Errorf("changed: %v", changed)
		}
		for uid, want := range map[types.UID]int{"1": 1, "2": 0} {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: uid}}
			if sets := w.members.Get("a").ReplicaSetsOf(d); len(sets) != want || want > 0 && sets[0].Name != "web-5d4" {
				t.Errorf("%d ReplicaSets of the Deployment %s", len(sets), uid)
			}
		}
	})
}

// A program that starts while a cluster is lost goes on waiting for it, and does not take it for a
// new one when it returns.
func TestRestartRemembersALoss(t *testing.T) {
	inBubble(t, func(_ *testing.T, w *hostHarness) {
		s := w.server("a")
		w.after(time.Second)
		w.net.down(at("a"))
		w.after(2 * time.Minute)
		w.says("a", offline)
		w.stop()
		w.run(w.members.options)
		w.net.up(at("a"), s)
		w.poke("a")
		w.after(time.Second)
		w.says("a", stabilizes)
		w.after(70 * time.Second)
		w.says("a", fine)
	})
}

func TestClusterLeaves(t *testing.T) {
	inBubble(t, func(t *testing.T, w *hostHarness) {
		s := w.server("a")
		w.after(time.Second)
		m := w.get("a")
		if err := w.host.Delete(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		w.poke("a")
		w.after(time.Second)
		if w.members.Get("a") != nil || len(w.clusters()) != 0 {
			t.Error("it is still there")
		}
		before := s.called("GET /readyz")
		w.after(time.Hour)
		if s.called("GET /readyz") != before {
			t.Error("it is still asked")
		}
	})
}

func TestLabelsAndTaintsAreSeen(t *testing.T) {
	inBubble(t, func(t *testing.T, w *hostHarness) {
		w.server("a")
		w.after(time.Second)
		reported := make(chan string, 1)
		w.members.Handle(func(cluster string, _ *Local) { reported <- cluster })
		m := w.get("a")
		m.Labels = map[string]string{"topology.kubernetes.io/region": "eu"}
		if err := w.host.Update(t.Context(), m, &client.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.poke("a")
		if cluster := <-reported; cluster != "a" {
			t.Error(cluster)
		}
		m.Spec.Taints = []v1alpha1.ClusterTaint{{Key: "maintenance", Effect: v1.TaintEffectNoExecute}}
		if err := w.host.Update(t.Context(), m, &client.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.poke("a")
		w.after(time.Second)
		if v := w.members.Get("a").View(); v.NoSchedule || !v.Leaving || len(reported) != 1 {
			t.Errorf("%+v", v)
		}
	})
}

func replicaSet(name string, replicas int32) *appsv1.ReplicaSet {
	r := &appsv1.ReplicaSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: ReplicaSet},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), ResourceVersion: "1",
			Labels: map[string]string{v1alpha1.LabelFederated: "true"}},
	}
	r.Spec.Replicas = &replicas
	return r
}
