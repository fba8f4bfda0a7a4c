package webhooks_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/internal/webhooks"
)

// Replicas that start at the same time serve one certificate, for which the API server trusts them.
func TestReplicasAgreeOnOneCertificate(t *testing.T) {
	w := newAPIServer(t, installed()...)
	var replicas []*webhooks.Keeper
	var all sync.WaitGroup
	for range 8 {
		k := w.keeper(t)
		replicas = append(replicas, k)
		if k.Certificate() != nil || k.Ready() == nil {
			t.Error("ready before the start")
		}
		all.Go(func() { k.Sync(t.Context()) })
	}
	all.Wait()
	for _, k := range replicas {
		if !k.Certificate().Leaf.Equal(replicas[0].Certificate().Leaf) || k.Ready() != nil {
			t.Errorf("another certificate, or not ready: %v", k.Ready())
		}
		if err := w.untrusted(t, k); err != nil {
			t.Error(err)
		}
	}
	if s := w.secret(t); s.Type != v1.SecretTypeTLS || len(s.Data) != 3 {
		t.Errorf("the Secret has type %s and %v", s.Type, slices.Collect(maps.Keys(s.Data)))
	}
}

// In a rotation the API server knows the next authority a while before it is served, and the former
// one a while after.
func TestRotationOverlaps(t *testing.T) {
	w := newAPIServer(t, installed()...)
	k, other := w.keeper(t), w.keeper(t)
	k.Sync(t.Context())
	other.Sync(t.Context())
	first := k.Certificate().Leaf
	authorities := func() int { return bytes.Count(w.trusts(t)[0], []byte("BEGIN CERTIFICATE")) }
	if first.NotAfter.Sub(w.clock.Now()) != webhooks.DefaultLifetime || first.NotBefore.After(w.clock.Now().Add(-24*time.Hour)) {
		t.Errorf("valid from %s to %s", first.NotBefore, first.NotAfter)
	}
	w.clock.Step(webhooks.DefaultLifetime*2/3 - time.Minute)
	if k.Sync(t.Context()); authorities() != 1 {
		t.Error("a rotation before a third of the lifetime is left")
	}
	w.clock.Step(2 * time.Minute)
	k.Sync(t.Context())
	w.clock.Step(k.Settle() - time.Second)
	k.Sync(t.Context())
	if authorities() != 2 || !k.Certificate().Leaf.Equal(first) {
		t.Errorf("%d authorities, and the certificate was replaced too early: %v", authorities(), !k.Certificate().Leaf.Equal(first))
	}
	other.Sync(t.Context())
	w.clock.Step(time.Second)
	other.Sync(t.Context()) // it has waited for a second only, and so may not decide
	if !other.Certificate().Leaf.Equal(first) {
		t.Error("a replica decides by the clock of another")
	}
	k.Sync(t.Context())
	if k.Certificate().Leaf.Equal(first) || authorities() != 2 {
		t.Error("the certificate was not replaced")
	}
	if err := w.untrusted(t, other); err != nil {
		t.Errorf("the former certificate: %v", err)
	}
	other.Sync(t.Context())
	if !other.Certificate().Leaf.Equal(k.Certificate().Leaf) {
		t.Error("the other replica serves another one")
	}
	w.clock.Step(k.Retain() - time.Second)
	if k.Sync(t.Context()); authorities() != 2 {
		t.Error("the former authority went too early")
	}
	w.clock.Step(2 * time.Second)
	if k.Sync(t.Context()); authorities() != 1 {
		t.Error("the former authority is still trusted")
	}
}

// Whatever happens to the Secret and the configurations, in whichever order replicas do their steps,
// the API server trusts what they serve after each step of any of them.
func TestServedIsTrustedAlways(t *testing.T) {
	if testing.Short() {
		t.Skip("replicas take turns here: there is nothing to race")
	}
	rapid.Check(t, func(r *rapid.T) {
		w := newAPIServer(t, installed()...)
		replicas := []*webhooks.Keeper{w.keeper(t), w.keeper(t), w.keeper(t)}
		for _, k := range replicas {
			k.Sync(t.Context())
		}
		depth, frozen := 0, map[int]bool{}
		check := func(after string) {
			for i, k := range replicas {
				if err := w.untrusted(t, k); err != nil {
					r.Fatalf("after %s, replica %d: %v", after, i, err)
				}
			}
		}
		pass := func(i int) {
			if frozen[i] { // in the middle of a pass of its own
				return
			}
			frozen[i] = true
			depth++
			replicas[i].Sync(t.Context())
			depth--
			delete(frozen, i)
		}
		w.before = func(verb string, o client.Object) error {
			if depth == 0 || depth > 2 {
				return nil
			}
			switch rapid.IntRange(0, 9).Draw(r, "between") {
			case 0, 1: // another one passes while this one is frozen
				pass(rapid.IntRange(0, len(replicas)-1).Draw(r, "who"))
				w.clock.Step(replicas[0].Settle())
			case 2:
				if verb != "get" {
					return apierrors.NewConflict(schema.GroupResource{}, o.GetName(), nil)
				}
			}
			return nil
		}
		quiet := func() {
			for range 4 {
				for _, k := range replicas {
					k.Sync(t.Context())
				}
				check("quiet")
				w.clock.Step(replicas[0].Settle())
			}
		}
		for range rapid.IntRange(1, 8).Draw(r, "steps") {
			switch event := rapid.SampledFrom([]string{"pass", "pass", "pass", "pass", "wait", "weeks", "delete", "garbage", "half", "new"}).Draw(r,
				"event"); event {
			case "pass":
				pass(rapid.IntRange(0, len(replicas)-1).Draw(r, "who"))
				check("a pass")
			case "wait":
				w.clock.Step(replicas[0].Settle())
			case "weeks": // of quiet
				quiet()
				w.clock.Step(20 * 24 * time.Hour)
			case "delete":
				if err := client.IgnoreNotFound(w.client.Delete(t.Context(), &v1.Secret{ObjectMeta: w.secretMeta()})); err != nil {
					r.Fatal(err)
				}
			case "garbage", "half":
				w.spoil(t, event == "half")
			case "new": // a replica is replaced
				k := w.keeper(t)
				if k.Sync(t.Context()); k.Certificate() != nil {
					replicas[0] = k
				}
			}
		}
		quiet()
		for _, k := range replicas {
			if !k.Certificate().Leaf.Equal(replicas[0].Certificate().Leaf) {
				r.Fatal("replicas serve different certificates")
			}
		}
	})
}

// What is deleted or spoiled is stored again from memory, and replaced without an interruption.
func TestSecretThatIsLostIsReplaced(t *testing.T) {
	for _, how := range []string{"deleted", "spoiled", "half spoiled", "emptied", "of others"} {
		t.Run(how, func(t *testing.T) {
			w := newAPIServer(t, installed()...)
			k := w.keeper(t)
			k.Sync(t.Context())
			first := k.Certificate().Leaf
			switch how {
			case "deleted":
				if err := w.client.Delete(t.Context(), w.secret(t)); err != nil {
					t.Fatal(err)
				}
			case "spoiled", "half spoiled":
				w.spoil(t, how == "half spoiled")
			case "emptied", "of others":
				s := w.secret(t)
				s.Data = nil
				if how == "of others" {
					s.Data = map[string][]byte{"password": []byte("secret")}
				}
				if err := w.client.Update(t.Context(), s); err != nil {
					t.Fatal(err)
				}
			}
			k.Sync(t.Context())
			if !k.Certificate().Leaf.Equal(first) {
				t.Error("the certificate was replaced before the API server knew the next authority")
			}
			w.clock.Step(k.Settle())
			if k.Sync(t.Context()); k.Certificate().Leaf.Equal(first) {
				t.Error("the certificate was not replaced")
			}
			if err := w.untrusted(t, k); err != nil {
				t.Error(err)
			}
		})
	}
}

// A program that starts with an expired certificate, or with nothing usable, serves a new one at once.
func TestStartAfterTheCertificateExpired(t *testing.T) {
	for _, how := range []string{"expired", "spoiled"} {
		w := newAPIServer(t, installed()...)
		w.keeper(t).Sync(t.Context())
		if how == "spoiled" {
			w.spoil(t, false)
		} else {
			w.clock.Step(webhooks.DefaultLifetime + time.Hour)
		}
		k := w.keeper(t)
		if k.Sync(t.Context()); k.Ready() != nil {
			t.Errorf("%s: %v", how, k.Ready())
		}
		if err := w.untrusted(t, k); err != nil {
			t.Errorf("%s: %v", how, err)
		}
	}
}

// A replica whose clock is a day late uses what another one has made, and one that is much too late
// does not replace it.
func TestClocksDiffer(t *testing.T) {
	w := newAPIServer(t, installed()...)
	k := w.keeper(t)
	k.Sync(t.Context())
	for _, late := range []time.Duration{time.Minute, 23 * time.Hour, 1000 * time.Hour} {
		behind := newAPIServer(t)
		behind.client = w.client
		behind.clock.SetTime(w.clock.Now().Add(-late))
		other := behind.keeper(t)
		if other.Sync(t.Context()); !other.Certificate().Leaf.Equal(k.Certificate().Leaf) {
			t.Errorf("%s late: another certificate", late)
		}
	}
	k.Sync(t.Context())
	if err := w.untrusted(t, k); err != nil {
		t.Error(err)
	}
}

// While replicas want different hosts, the certificate is for all of them, and they do not fight.
func TestReplicasWithDifferentHostsShareACertificate(t *testing.T) {
	w := newAPIServer(t, installed()...)
	a := w.keeper(t)
	a.Sync(t.Context())
	w.hosts = []string{"webhooks.example.com"}
	b := w.keeper(t)
	for range 6 {
		b.Sync(t.Context())
		a.Sync(t.Context())
		w.clock.Step(a.Settle())
	}
	leaf := a.Certificate().Leaf
	for _, host := range []string{"webhooks.example.com", "127.0.0.1", "evenkeel-webhooks.evenkeel-system.svc"} {
		if err := leaf.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
	for range 6 {
		b.Sync(t.Context())
		a.Sync(t.Context())
		w.clock.Step(a.Settle())
	}
	if !a.Certificate().Leaf.Equal(leaf) || !b.Certificate().Leaf.Equal(leaf) {
		t.Error("the certificate was replaced again")
	}
}

// A pass that changes nothing writes nothing.
func TestNothingIsWrittenTwice(t *testing.T) {
	w := newAPIServer(t, installed()...)
	w.need = []string{"shop", "bank"}
	w.keeper(t).Sync(t.Context())
	w.before = func(verb string, o client.Object) error {
		if verb != "get" {
			t.Errorf("%s %T", verb, o)
		}
		return nil
	}
	w.keeper(t).Sync(t.Context())
}

func TestReady(t *testing.T) {
	forbidden := func(resource string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, webhooks.DefaultName, nil)
	}
	for name, c := range map[string]struct {
		objects []client.Object
		before  func(string, client.Object) error
		want    string // "" means ready
	}{
		"all is well":   {installed(), nil, ""},
		"not installed": {nil, nil, ""},
		"no rights at all": {installed(), func(_ string, o client.Object) error {
			return forbidden(fmt.Sprintf("%T", o))
		}, ""},
		"installed, no right to read the Secret": {installed(), func(_ string, o client.Object) error {
			if _, is := o.(*v1.Secret); is {
				return forbidden("secrets")
			}
			return nil
		}, "reading Secret evenkeel-system/evenkeel-webhooks"},
		"installed, no right to store the Secret": {installed(), func(verb string, o client.Object) error {
			if _, is := o.(*v1.Secret); is && verb == "create" {
				return forbidden("secrets")
			}
			return nil
		}, "storing the certificate in Secret evenkeel-system/evenkeel-webhooks"},
		"no answer": {installed(), func(string, client.Object) error { return context.DeadlineExceeded }, "not known yet"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newAPIServer(t, c.objects...)
			k := w.keeper(t)
			w.before = c.before
			k.Sync(t.Context())
			err := k.Ready()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v", err)
			}
			w.before = nil
			if k.Sync(t.Context()); k.Ready() != nil || k.Certificate() == nil {
				t.Errorf("after it was mended: %v", k.Ready())
			}
		})
	}
}
