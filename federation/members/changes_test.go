package members

import (
	"context"
	"io"
	"log"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Of several changes with one key the last that waits is made, and no two at a time.
func TestDoMakesTheLastChange(t *testing.T) {
	inBubble(t, func(t *testing.T, w *hostHarness) {
		w.server("a")
		w.after(time.Second)
		c := w.members.Get("a")
		var made []string
		change := func(what string) Change {
			return func(context.Context, client.Client) {
				made = append(made, what) // not locked: of one key there is one at a time
				time.Sleep(time.Second)   //nolint:forbidigo // in the bubble's time
			}
		}
		for _, what := range []string{"1", "2", "3"} {
			c.Do(t.Context(), "k", change(what))
			synctest.Wait()
		}
		w.after(10 * time.Second)
		if !slices.Equal(made, []string{"1", "3"}) {
			t.Errorf("made %v", made)
		}
	})
}

// Many keys are worked on at the same time, up to the limit.
func TestDoIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, w *hostHarness) {
		w.server("a")
		w.after(time.Second)
		c := w.members.Get("a")
		var mu sync.Mutex
		now, most, all := 0, 0, 0
		for i := range 50 {
			c.Do(t.Context(), string(rune('a'+i)), func(context.Context, client.Client) {
				mu.Lock()
				now++
				all++
				most = max(most, now)
				mu.Unlock()
				time.Sleep(time.Second) //nolint:forbidigo // in the bubble's time
				mu.Lock()
				now--
				mu.Unlock()
			})
		}
		w.after(time.Minute)
		if all != 50 || most != writers {
			t.Errorf("%d of 50 made, at most %d at a time", all, most)
		}
	})
}

// Nothing is written to a cluster that does not answer, and nobody waits for it.
func TestDoDropsChangesOfALostCluster(t *testing.T) {
	inBubble(t, func(t *testing.T, w *hostHarness) {
		w.server("a")
		w.after(time.Second)
		w.net.down(at("a"))
		w.after(15 * time.Second)
		made := false
		w.members.Get("a").Do(t.Context(), "k", func(context.Context, client.Client) { made = true })
		w.after(time.Minute)
		if made {
			t.Error("it was made")
		}
	})
}

// On real connections: one of five clusters accepts them and never answers. Changes of the others
// do not wait for it.
func TestHangDelaysNoOtherCluster(t *testing.T) {
	o := Options{CallTimeout: time.Hour, ProbeInterval: 50 * time.Millisecond, ProbeTimeout: 3 * time.Second} // also in time on a busy machine
	w := newHostHarness(t, o)
	w.stop()
	w.run(o) // on the network, not in memory
	stop := sync.OnceFunc(w.stop)
	servers := map[string]*server{}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		s := newServer("uid-of-"+name, "token-of-"+name)
		web := httptest.NewUnstartedServer(s)
		web.Config.ErrorLog = log.New(io.Discard, "", 0)
		web.StartTLS()
		t.Cleanup(func() {
			stop() // what runs connects anew while it shuts down, and the watches would keep it from that
			web.CloseClientConnections()
			web.Close()
		})
		servers[name] = s
		w.join(name, kubeconfig(t, web.URL, s.token))
	}
	eventually(t, "all are ready", func() bool {
		all := w.clusters()
		return len(all) == 5 && !slices.ContainsFunc(all, func(c *Cluster) bool { return c.View().State != Ready })
	})
	release := servers["c"].hang()
	defer release()
	ended := make(chan string, 5)
	for _, c := range w.clusters() {
		c.Do(t.Context(), "k", func(ctx context.Context, api client.Client) {
			_ = api.Create(ctx, aReplicaSet()) // the server knows no such call: its answer is all that matters
			ended <- c.Name()
		})
	}
	for range 4 {
		if name := <-ended; name == "c" {
			t.Error("the change of the one that hangs has ended")
		}
	}
	eventually(t, "only the one that hangs is not answering", func() bool {
		return !slices.ContainsFunc(w.clusters(), func(c *Cluster) bool { return (c.View().State == NotAnswering) != (c.Name() == "c") })
	})
}

// A change of a cluster that accepts connections and never answers ends by itself.
func TestDoEndsInTime(t *testing.T) {
	inBubble(t, func(t *testing.T, w *hostHarness) {
		s := w.server("a")
		w.after(time.Second)
		defer s.hang()()
		var took time.Duration
		w.members.Get("a").Do(t.Context(), "k", func(ctx context.Context, api client.Client) {
			start := time.Now()
			_ = api.Create(ctx, aReplicaSet())
			took = time.Since(start)
		})
		w.after(time.Minute)
		if took == 0 || took > 2*writeTimeout {
			t.Errorf("after %s", took)
		}
	})
}

func aReplicaSet() *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
}

// eventually waits on what happens in real time.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // a busy machine takes long
	defer cancel()
	tick := clock.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-ctx.Done():
			t.Fatalf("not in time: %s", what)
		case <-tick.C():
		}
	}
}
