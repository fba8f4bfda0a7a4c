package reconcile

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/internal/controller/scale"
)

// malformed is a Balancer as a definition without a schema lets it be.
func malformed(name string) *unstructured.Unstructured {
	u := untyped()
	u.SetNamespace("shop")
	u.SetName(name)
	u.Object["spec"] = map[string]any{"replicas": "ten", "targets": "a"}
	return u
}

// broken reads what the fake client cannot hold: an object that does not parse.
type broken struct {
	client.Reader
	object *unstructured.Unstructured
}

func (b broken) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if u, ok := o.(*unstructured.Unstructured); ok && key.Name == b.object.GetName() {
		b.object.DeepCopyInto(u)
		return nil
	}
	return b.Reader.Get(ctx, key, o, options...)
}

func (b broken) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := b.Reader.List(ctx, list, options...); err != nil {
		return err
	}
	if all, ok := list.(*unstructured.UnstructuredList); ok {
		all.Items = append([]unstructured.Unstructured{*b.object}, all.Items...)
	}
	return nil
}

// One Balancer that does not parse is named, and keeps no other from being balanced.
func TestMalformedBalancerBlindsNobody(t *testing.T) {
	b := newBench(t, balancerOf("web", 4, "a"))
	b.server.deploy("a", 0)
	bad := broken{b.live, malformed("bad")}
	b.live, b.balancers.cache = bad, bad
	b.pass("bad")
	if told := b.told(); !strings.Contains(told, "Warning Malformed the Balancer does not parse") || !strings.Contains(told, "replicas") {
		t.Errorf("told %q", told)
	}
	want := "# HELP evenkeel_balancer_malformed 1 for a Balancer that does not parse and is left alone.\n# TYPE " +
		"evenkeel_balancer_malformed gauge\n" +
		"evenkeel_balancer_malformed{name=\"bad\",namespace=\"shop\"} 1\n"
	if err := testutil.GatherAndCompare(b.registry, strings.NewReader(want), "evenkeel_balancer_malformed"); err != nil {
		t.Error(err)
	}
	b.pass("web")
	b.wrote("a=4")
	b.live = b.client // it is put right
	b.pass("bad")
	if n := testutil.CollectAndCount(b.metrics.malformed); n != 0 {
		t.Errorf("%d are said to be malformed", n)
	}
}

// A Balancer is parsed once for each version.
func TestBalancersAreParsedOnce(t *testing.T) {
	web := balancerOf("web", 4, "a")
	web.UID = "1"
	c := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(web).WithIndex(&v1alpha1.Balancer{}, byTargetName, targetNames).Build()
	s := &balancers{cache: c}
	read := func() *v1alpha1.Balancer {
		t.Helper()
		list, err := s.named(t.Context(), "shop", "a")
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		return list[0]
	}
	first := read()
	if read() != first {
		t.Error("it was parsed again")
	}
	changed := first.DeepCopy()
	changed.Spec.Replicas = new(int32(7))
	if err := c.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if again := read(); *again.Spec.Replicas != 7 {
		t.Errorf("an old version: %+v", again.Spec)
	}
	s.forget(client.ObjectKeyFromObject(web))
	s.parsed.Range(func(uid, _ any) bool {
		t.Errorf("remembered: %v", uid)
		return true
	})
}

// Twenty Balancers with a hundred targets each that cannot be watched are looked at with ten reads
// a second in all, however often; a Balancer alone every quarter of a minute.
func TestPollsAreBounded(t *testing.T) {
	b := newBench(t, balancerOf("web", 0, "a", "b"))
	b.server.deploy("a", 0)
	b.server.deploy("b", 0)
	if again := b.pass("web"); again != scale.PollInterval {
		t.Errorf("alone it is looked at again in %s", again)
	}
	const others, targets = 20, 100
	key := func(i int) client.ObjectKey { return client.ObjectKey{Namespace: "shop", Name: fmt.Sprint("other", i)} }
	for range 2 { // each is counted once
		for i := range others {
			b.polls.note(key(i), targets)
		}
	}
	again := b.pass("web")
	if reads := (others*targets + 2) / again.Seconds(); reads > 10 {
		t.Errorf("%.2f reads a second", reads)
	} else {
		t.Logf("%.2f reads a second, a look at each in %s", reads, again)
	}
	found := observation{interval: again}
	if got := found.retryAfter(passes.LastRetry); got != again {
		t.Errorf("what fails again and again is tried in %s, want %s", got, again)
	}
	if got := found.retryAfter(passes.FirstRetry); got != passes.FirstRetry {
		t.Errorf("what failed once is tried in %s", got)
	}
	elsewhere := client.ObjectKey{Namespace: "bank", Name: "web"}
	if wait := b.polls.note(elsewhere, 3); wait != 2*3*perPoll {
		t.Errorf("the only one of another namespace is looked at in %s, want with half of the reads", wait)
	}
	b.polls.note(elsewhere, 0)
	for i := range others {
		b.polls.note(key(i), 0)
	}
	if again := b.pass("web"); again != scale.PollInterval {
		t.Errorf("alone again it is looked at in %s", again)
	}
}
