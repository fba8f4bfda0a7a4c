package zonemarks_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/zonemarks"
	"github.com/evenkeel/evenkeel/zonalshift"
)

const head = "apiVersion: evenkeel.dev/v1alpha1\nkind: ZonalShift\nspec:\n  shifts:\n"

func Example() {
	_, marks, err := zonemarks.Parse("shifts.yaml", []byte(head+"  - {name: eu-west-1a, reason: power failure}\n"))
	fmt.Println(marks[0].Domain, "-", marks[0].Reason, err)
	_, _, err = zonemarks.Parse("shifts.yaml", []byte(head+"  - {zone: eu-west-1a}\n"))
	fmt.Println(err)
	// Output:
	// zone eu-west-1a - power failure <nil>
	// shifts.yaml: document 1: spec.shifts[0].zone: unknown field
}

func TestATextComesBackAsItWas(t *testing.T) {
	text := head + "  - {name: a, topologyKey: example.com/rack, reason: power, since: \"2026-01-01T00:00:00Z\", until: " +
		"\"2026-01-01T02:00:00Z\"}\n  - name: b\n"
	doc, marks, err := zonemarks.Parse("x", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	again, err := zonemarks.Format(doc)
	if err != nil {
		t.Fatal(err)
	}
	_, marksAgain, err := zonemarks.Parse("x", again)
	if err != nil || fmt.Sprint(marks) != fmt.Sprint(marksAgain) || len(marks) != 2 {
		t.Errorf("%v\n%v\n%s%v", marks, marksAgain, again, err)
	}
}

// stores are a file and a ConfigMap that are not there yet.
func stores(t *testing.T) map[string]zonemarks.Store {
	return map[string]zonemarks.Store{
		"file":      zonemarks.File{Path: filepath.Join(t.TempDir(), "shifts.yaml")},
		"ConfigMap": zonemarks.ConfigMap{Client: fake.NewClientset(), Namespace: "kube-system", Name: zonemarks.DefaultConfigMap},
	}
}

func TestStoresKeepATextAndLoseNoneOnAnError(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			if text, err := store.Load(ctx); err != nil || len(text) > 0 {
				t.Fatalf("at first: %q, %v", text, err)
			}
			for _, step := range []string{"one", "two"} {
				if err := store.Change(ctx, func([]byte) ([]byte, error) { return []byte(step), nil }); err != nil {
					t.Fatal(err)
				}
			}
			no := errors.New("no")
			if err := store.Change(ctx, func([]byte) ([]byte, error) { return nil, no }); !errors.Is(err, no) {
				t.Errorf("got %v", err)
			}
			if text, err := store.Load(ctx); err != nil || string(text) != "two" {
				t.Errorf("%q, %v", text, err)
			}
		})
	}
}

func TestAFileLeavesNothingBeside(t *testing.T) {
	dir := t.TempDir()
	store := zonemarks.File{Path: filepath.Join(dir, "shifts.yaml")}
	if err := store.Change(context.Background(), func([]byte) ([]byte, error) { return []byte("x"), nil }); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v %v", entries, err)
	}
}

// Two users change the ConfigMap at the same time: what the first has written is not lost.
func TestAConfigMapKeepsTheChangesOfOthers(t *testing.T) {
	client := fake.NewClientset(&v1.ConfigMap{})
	store := zonemarks.ConfigMap{Client: client, Namespace: "kube-system", Name: "marks"}
	add := func(line string) func([]byte) ([]byte, error) {
		return func(text []byte) ([]byte, error) { return append(text, line...), nil }
	}
	if err := store.Change(context.Background(), add("a")); err != nil {
		t.Fatal(err)
	}
	updates, raced := 0, false
	client.PrependReactor("update", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		updates++
		stale := updates == 2 // of what was read before the first
		return stale, nil, apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "marks", errors.New("changed"))
	})
	err := store.Change(context.Background(), func(text []byte) ([]byte, error) {
		if !raced {
			raced = true
			if err := store.Change(context.Background(), add("b")); err != nil {
				t.Error(err)
			}
		}
		return add("c")(text)
	})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := store.Load(context.Background()); err != nil || string(text) != "abc" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestAMissingRightIsNamed(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "marks", errors.New("no"))
	})
	_, err := zonemarks.ConfigMap{Client: client, Namespace: "kube-system", Name: "marks"}.Load(context.Background())
	if err == nil || !strings.HasPrefix(err.Error(), "ConfigMap kube-system/marks: a role must allow the verb get: ") {
		t.Errorf("got %v", err)
	}
}

// Each change is reported once, and so is what cannot be used.
func TestWatchReportsChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shifts.yaml")
	synctest.Test(t, func(t *testing.T) {
		var got []string
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			zonemarks.Watch(ctx, zonemarks.File{Path: path}, clock.RealClock{}, func(marks []zonalshift.Mark, err error) {
				got = append(got, fmt.Sprint(len(marks), " ", err != nil))
			})
		}()
		time.Sleep(zonemarks.Interval / 2) //nolint:forbidigo // in the bubble's time, between two readings
		for _, text := range []string{"", head + "  - name: a\n", head + "  - name: a\n", "kind: [", "kind: [", " ", head +
			"  - name: a\n  - name: b\n", head + "  - name: a\n"} {
			if text != "" {
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(zonemarks.Interval) //nolint:forbidigo // in the bubble's time
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(zonemarks.Interval) //nolint:forbidigo // in the bubble's time
		cancel()
		<-done
		if want := "0 false, 1 false, 0 true, 0 true, 2 false, 1 false, 0 false"; strings.Join(got, ", ") != want {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"", head, head + "  - name: a\n", "kind: [", head + "  - {name: a, until: \"2026-01-01T02:00:00Z\"}\n---\n" +
		head} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		doc, marks, err := zonemarks.Parse("x", text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "x: ") {
				t.Fatalf("%q does not name the input", err)
			}
			return
		}
		if len(marks) != len(doc.Spec.Shifts) || text != nil && doc.Kind != v1alpha1.KindZonalShift {
			t.Fatalf("%v of %+v", marks, doc)
		}
		again, err := zonemarks.Format(doc)
		if err != nil {
			t.Fatal(err)
		}
		if _, marksAgain, err := zonemarks.Parse("x", again); err != nil || fmt.Sprint(marks) != fmt.Sprint(marksAgain) {
			t.Fatalf("%v: %v\n%v\n%s", err, marks, marksAgain, again)
		}
	})
}
