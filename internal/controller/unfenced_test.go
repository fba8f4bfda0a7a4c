package controller_test

import (
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/internal/controller"
)

// What every process does, such as answering webhooks, does not end with the leadership.
func TestWhoHasLostTheLeadershipWritesWhatNeedsNoLeader(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	close(s.open)
	w := &watcher{name: "watcher"}
	o := options("alice")
	o.LeaseDuration, o.RenewDeadline = 500*time.Millisecond, 400*time.Millisecond
	m, _, ended := run(t, s, w, o)
	unfenced, err := controller.UnfencedClient(s.config(), scheme.Scheme)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "it leads", func() bool { return w.passes.Load() == 1 })
	var cached v1.ConfigMap
	if err := m.Cache().Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "thing"}, &cached); err != nil || cached.Data["a"] != "b" {
		t.Errorf("the cache has %v, %v", cached.Data, err)
	}
	s.mu.Lock()
	s.broken = true
	s.mu.Unlock()
	if err := <-ended; err == nil {
		t.Error("it goes on leading")
	}
	write := func(c client.Client) error {
		return c.Create(t.Context(), &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "new"}})
	}
	eventually(t, "the fence is closed", func() bool { return errors.Is(write(w.client.(client.Client)), controller.ErrNotLeading) })
	if err := write(unfenced); !apierrors.IsNotFound(err) { // that server takes none
		t.Errorf("the write did not arrive: %v", err)
	}
}
