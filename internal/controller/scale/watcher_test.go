package scale

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
)

var deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

// watcherHarness is a Watcher, what it is to see and what it told.
type watcherHarness struct {
	*Watcher
	client *fake.FakeMetadataClient

	mu      sync.Mutex
	refusal error // of any list or watch
	streams []watch.Interface
	asked   int // times it was listed or watched
	told    []string
}

// within runs a test in virtual time, and sees to it that nothing runs on when the Watcher ends.
func within(t *testing.T, o WatcherOptions, test func(*testing.T, *watcherHarness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		scheme := fake.NewTestScheme()
		if err := metav1.AddMetaToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		w := &watcherHarness{client: fake.NewSimpleMetadataClient(scheme)}
		w.client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			err := w.ask()
			return err != nil, nil, err
		})
		w.client.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
			if err := w.ask(); err != nil {
				return true, nil, err
			}
			stream, err := w.client.Tracker().Watch(action.GetResource(), action.GetNamespace())
			w.mu.Lock()
			defer w.mu.Unlock()
			w.streams = append(w.streams, stream)
			return true, stream, err
		})
		o.Changed = func(target Target) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.told = append(w.told, target.Resource.Resource+" "+target.Namespace+"/"+target.Name)
		}
		w.Watcher = newWatcher(w.client, o)
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		go func() {
			if err := w.Start(ctx); err != nil {
				t.Error(err)
			}
		}()
		test(t, w)
	})
}

func (w *watcherHarness) ask() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	return w.refusal
}

// refuse has lists and watches fail from now on, those that run included; nil has them work.
func (w *watcherHarness) refuse(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusal = err
	if err == nil {
		return
	}
	for _, stream := range w.streams {
		stream.Stop()
	}
	w.streams = nil
}

// expect waits until nothing is under way, and compares what was told since the last time.
func (w *watcherHarness) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if diff := cmp.Diff(want, w.told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	w.told = nil
}

func (w *watcherHarness) polls(t *testing.T, want time.Duration) {
	t.Helper()
	if got := w.Watch(deployments, "shop"); got != want {
		t.Errorf("told to look every %v, want %v", got, want)
	}
}

func object(name string, generation int64, version string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Generation: generation, ResourceVersion: version},
	}
}

func (w *watcherHarness) create(t *testing.T, o *metav1.PartialObjectMetadata) {
	t.Helper()
	if err := w.client.Tracker().Create(deployments, o, "shop"); err != nil {
		t.Fatal(err)
	}
}

func (w *watcherHarness) update(t *testing.T, o *metav1.PartialObjectMetadata) {
	t.Helper()
	if err := w.client.Tracker().Update(deployments, o, "shop"); err != nil {
		t.Fatal(err)
	}
}

var errForbidden = apierrors.NewForbidden(deployments.GroupResource(), "", errors.New("no role"))

// pass lets so much virtual time go by.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	<-ctx.Done()
	synctest.Wait()
}

func TestWatchTellsWhatConcernsTheScale(t *testing.T) {
	within(t, WatcherOptions{}, func(t *testing.T, w *watcherHarness) {
		w.create(t, object("web", 1, "1"))
		w.polls(t, PollInterval) // it has not begun yet
		w.expect(t, "deployments shop/web")
		w.polls(t, 0)

		w.create(t, object("api", 1, "2"))
		w.expect(t, "deployments shop/api")
		w.update(t, object("api", 1, "3")) // its status
		w.expect(t)
		w.update(t, object("api", 2, "4"))
		w.expect(t, "deployments shop/api")
		replaced := object("api", 2, "5")
		replaced.UID = "another"
		w.update(t, replaced)
		w.expect(t, "deployments shop/api")
		ending := object("web", 1, "6")
		ending.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		w.update(t, ending)
		w.expect(t, "deployments shop/web")
		if err := w.client.Tracker().Delete(deployments, "shop", "web"); err != nil {
			t.Fatal(err)
		}
		w.expect(t, "deployments shop/web")

		w.create(t, object("bare", 0, "7")) // of an API without generations
		w.update(t, object("bare", 0, "8"))
		w.expect(t, "deployments shop/bare", "deployments shop/bare")
	})
}

func TestWatchThatIsRefused(t *testing.T) {
	within(t, WatcherOptions{}, func(t *testing.T, w *watcherHarness) {
		w.refuse(errForbidden)
		w.create(t, object("web", 1, "1"))
		w.polls(t, PollInterval)
		pass(t, time.Hour)
		w.expect(t)
		w.polls(t, PollInterval)
		w.mu.Lock()
		if w.asked > 2*150 { // the informer waits up to half a minute, and asks for a stream first
			t.Errorf("asked %d times in an hour", w.asked)
		}
		w.mu.Unlock()

		w.refuse(nil)
		pass(t, time.Minute)
		w.expect(t, "deployments shop/web")
		w.polls(t, 0)
	})
}

func TestWatchThatIsLost(t *testing.T) {
	within(t, WatcherOptions{}, func(t *testing.T, w *watcherHarness) {
		w.create(t, object("web", 1, "1"))
		w.polls(t, PollInterval)
		w.expect(t, "deployments shop/web")

		w.refuse(errors.New("connection refused"))
		pass(t, time.Minute)
		w.expect(t)
		w.polls(t, 0) // the informer catches up by itself
		w.refuse(nil)
		pass(t, time.Minute)
		w.expect(t)

		w.refuse(errForbidden)
		pass(t, time.Minute)
		w.expect(t, "deployments shop/web") // so that its reader learns that it has to poll
		w.polls(t, PollInterval)
		pass(t, time.Hour)
		w.expect(t)
		w.update(t, object("web", 2, "2"))
		w.refuse(nil)
		pass(t, time.Minute)
		w.expect(t, "deployments shop/web") // what was missed
		w.polls(t, 0)
	})
}

func TestWatchesAreNotDoubled(t *testing.T) {
	for name, test := range map[string]struct {
		options WatcherOptions
		watches int
	}{
		"one of all namespaces": {WatcherOptions{}, 1},
		"one of each namespace": {WatcherOptions{PerNamespace: true}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			within(t, test.options, func(t *testing.T, w *watcherHarness) {
				for range 10 {
					w.Watch(deployments, "shop")
					w.Watch(deployments, "mill")
					synctest.Wait()
				}
				w.create(t, object("web", 1, "1"))
				w.expect(t, "deployments shop/web")
				if len(w.streams) != test.watches {
					t.Errorf("%d watches run, want %d", len(w.streams), test.watches)
				}
			})
		})
	}
}

func TestWatchBeforeStartAndAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatcher(fake.NewSimpleMetadataClient(fake.NewTestScheme()), WatcherOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		for range 2 {
			if got := w.Watch(deployments, "shop"); got != PollInterval {
				t.Errorf("not begun, but look every %v", got)
			}
		}
		ended := make(chan error)
		go func() { ended <- w.Start(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		other := deployments
		other.Resource = "statefulsets"
		if got := w.Watch(other, "shop"); got != PollInterval {
			t.Errorf("after the end: look every %v", got)
		}
	})
}
