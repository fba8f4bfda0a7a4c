package members

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// What is about a cluster is gone with it.
func TestMetricsAreForgotten(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	all := New(Options{Metrics: m})
	c := newCluster(&v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "paris"}}, all)
	all.clusters["paris"] = c
	m.see("paris", Ready)
	m.probed("paris", nil)
	m.probed("paris", errors.New("no answer"))
	m.called("paris", &http.Request{Method: http.MethodPatch, URL: &url.URL{}}, time.Second)
	if n, err := testutil.GatherAndCount(registry); n != 5+2+1+1 || err != nil {
		t.Errorf("%d series, %v", n, err)
	}
	all.remove("paris")
	if n, err := testutil.GatherAndCount(registry); n != 0 || err != nil {
		t.Errorf("%d series of a cluster that has gone, %v", n, err)
	}
}

// How many writes wait shows when a cluster is slow.
func TestMetricsOfWaitingWrites(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	all := New(Options{Metrics: m})
	c := newCluster(&v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "paris"}}, all)
	all.clusters["paris"] = c
	c.changes.begin.Do(func() {}) // no worker is free
	for _, key := range []string{"a", "b", "a"} {
		c.Do(t.Context(), key, func(context.Context, client.Client) {})
	}
	want := `
# HELP evenkeel_member_waiting_writes Writes of local objects that wait for one before, by cluster.
# TYPE evenkeel_member_waiting_writes gauge
evenkeel_member_waiting_writes{cluster="paris"} 2
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "evenkeel_member_waiting_writes"); err != nil {
		t.Error(err)
	}
}
