package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
)

func TestNewNamesABadConfiguration(t *testing.T) {
	_, err := New(t.Context(), &rest.Config{Host: "::"}, Options{})
	if err == nil || !strings.HasPrefix(err.Error(), "building a client of the API server: ") {
		t.Error(err)
	}
}

// The watch follows what happens to nodes, and everything ends with the context.
func TestClusterWatchesNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		client := fake.NewClientset(named("a"))
		c, err := start(ctx, client, Options{})
		if err != nil {
			t.Fatal(err)
		}
		wanted := func(want string) {
			t.Helper()
			synctest.Wait()
			nodes, ok := c.Nodes.List()
			var got []string
			for _, n := range nodes {
				got = append(got, fmt.Sprint(n.Name, n.Ready))
			}
			slices.Sort(got)
			if !ok || strings.Join(got, " ") != want {
				t.Errorf("known: %v %v, want %s", ok, got, want)
			}
		}
		wanted("atrue")
		nodes := client.CoreV1().Nodes()
		if _, err := nodes.Create(ctx, named("b"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		wanted("atrue btrue")
		if _, err := nodes.Update(ctx, with(named("b"), taint(v1.TaintNodeNotReady)), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		wanted("atrue bfalse")
		if err := nodes.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		wanted("bfalse")
		cancel()
		c.Wait()
	})
}

// Equal events are counted, many of a reason are combined, too many are dropped, and the API server
// may be away for a while.
func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		client := fake.NewClientset()
		o := Options{PodName: "ca-0", PodUID: "1", PodNamespace: "autoscaling"}
		c, err := start(ctx, client, o)
		if err != nil {
			t.Fatal(err)
		}
		events := func() []v1.Event {
			t.Helper()
			synctest.Wait()
			list, err := client.CoreV1().Events("autoscaling").List(ctx, metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return list.Items
		}
		for range 3 {
			c.Recorder.Event(true, "BackedOff", "the set a is backed off")
			synctest.Wait()
		}
		got := events()
		if len(got) != 1 || got[0].Count != 3 || got[0].Type != v1.EventTypeWarning || got[0].Reason != "BackedOff" ||
			got[0].InvolvedObject.Kind != "Pod" || got[0].InvolvedObject.Name != "ca-0" || got[0].InvolvedObject.UID != "1" {
			t.Fatalf("got %+v", got)
		}

		var away atomic.Bool
		var tries atomic.Int32
		away.Store(true)
		client.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
			tries.Add(1)
			return away.Load(), nil, errors.New("the line went dead")
		})
		<-time.After(time.Second) // events are named by their time
		c.Recorder.Event(false, "Granted", strings.Repeat("ä", eventMessage))
		synctest.Wait()
		<-time.After(2 * time.Second)
		away.Store(false)
		<-time.After(time.Minute)
		got = events()
		if len(got) != 2 || tries.Load() < 2 {
			t.Errorf("%d events after %d tries", len(got), tries.Load())
		}
		for _, e := range got {
			if len(e.Message) > eventMessage || strings.Contains(e.Message, "\uFFFD") {
				t.Errorf("a message of %d bytes: …%s", len(e.Message), e.Message[len(e.Message)-8:])
			}
		}

		for i := range 200 {
			<-time.After(time.Millisecond)
			c.Recorder.Event(false, "Granted", fmt.Sprint("group ", i))
		}
		if n := len(events()); n <= 2 || n > 2+eventBurst {
			t.Errorf("%d published", n)
		}
		cancel()
		c.Wait()
	})
}

// A refusal is not tried again, and does not stop the sidecar.
func TestRecorderIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		client := fake.NewClientset()
		tries := 0
		client.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
			tries++
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("no role"))
		})
		c, err := start(ctx, client, Options{})
		if err != nil {
			t.Fatal(err)
		}
		c.Recorder.Event(false, "Granted", "x")
		synctest.Wait()
		<-time.After(10 * time.Minute)
		if tries != 1 {
			t.Errorf("%d tries", tries)
		}
		cancel()
		c.Wait()
	})
}
