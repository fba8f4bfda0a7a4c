package sidecar_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/sidecar"
	"github.com/evenkeel/evenkeel/steering"
)

// zoneQuestion asks for one node in one of three zones.
func zoneQuestion() expander.Question {
	q := expander.Question{Nodes: map[string]*v1.Node{}, Pods: []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{UID: types.UID("p")}}}}
	for _, zone := range []string{"a", "b", "c"} {
		resources := v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("16Gi"),
			v1.ResourcePods: resource.MustParse("110")}
		q.Nodes[zone] = &v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1.LabelTopologyZone: zone}},
			Status: v1.NodeStatus{Capacity: resources, Allocatable: resources}}
		q.Options = append(q.Options, expander.Offer{Group: zone, NodeCount: 1, Pods: []int{0}})
	}
	return q
}

func statusOf(sizes ...int) steering.Sizes {
	out := steering.Sizes{Began: start}
	for i, n := range sizes {
		out.Groups = append(out.Groups, steering.GroupSize{Name: string(rune('a' + i)), Target: n, Ready: n, MaxSize: 10})
	}
	return out
}

func answer(t *testing.T, e *sidecar.Expander) string {
	t.Helper()
	groups, err := e.BestOptions(t.Context(), zoneQuestion())
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(groups, " ")
}

// TestExpanderAlone: it goes by the status of Cluster Autoscaler, and while there is none by the nodes or by its own answers.
func TestExpanderAlone(t *testing.T) {
	nodes := []*v1.Node{zoneQuestion().Nodes["b"], zoneQuestion().Nodes["b"], zoneQuestion().Nodes["c"]}
	count := func() ([]*v1.Node, error) { return nodes, nil }
	for _, c := range []struct {
		name    string
		nodes   sidecar.ExpanderNodes
		status  []int
		err     error
		want    string // three answers
		warning string
	}{
		{"a status", nil, []int{3, 1, 2}, nil, "b b c", ""},
		{"a status and nodes", count, []int{0, 5, 5}, nil, "a a a", ""},
		{"no status", nil, nil, errors.New("it does not exist"), "a b c", "since the start: it does not exist"},
		{"no status, but nodes", count, nil, errors.New("it does not exist"), "a a c", "counted nodes"},
		{"nothing read yet", nil, nil, nil, "a b c", "has not been read yet"},
		{"nodes that cannot be read", func() ([]*v1.Node, error) { return nil, errors.New("forbidden") }, nil, nil, "a b c", "not been read"},
	} {
		e, err := sidecar.NewExpander(c.nodes, sidecar.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if c.status != nil || c.err != nil {
			e.Sizes(statusOf(c.status...), c.err)
		}
		got := fmt.Sprintf("%s %s %s", answer(t, e), answer(t, e), answer(t, e))
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		status := e.Status()
		if warnings := strings.Join(status.Warnings, "; "); !strings.Contains(warnings, c.warning) || c.warning == "" && warnings != "" {
			t.Errorf("%s: warnings %q, want %q", c.name, warnings, c.warning)
		}
		if len(status.Decisions) == 0 || status.Decisions[0].Group != got[len(got)-1:] || status.Mode != string(steering.Choosing) ||
			!status.Ready {
			t.Errorf("%s: status %+v", c.name, status)
		}
	}
}

// TestExpanderAloneKeepsTheLastStatus: nodes are counted when the status has not been read for a while, not when a watch breaks.
func TestExpanderAloneKeepsTheLastStatus(t *testing.T) {
	clock := clocktesting.NewFakeClock(start)
	nodes := []*v1.Node{zoneQuestion().Nodes["b"], zoneQuestion().Nodes["c"]}
	e, err := sidecar.NewExpander(func() ([]*v1.Node, error) { return nodes, nil }, sidecar.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	e.Sizes(statusOf(5, 1, 5), nil)
	e.Sizes(steering.Sizes{}, errors.New("the watch has broken"))
	if got := answer(t, e); got != "b" {
		t.Errorf("after a status answered %s, want b", got)
	}
	clock.Step(20 * time.Minute)
	if got := answer(t, e); got != "a" {
		t.Errorf("long after a status answered %s, want a, which has no node", got)
	}
}

// TestExpanderAloneForNobody: a question of which the asker does not wait for the answer counts nothing.
func TestExpanderAloneForNobody(t *testing.T) {
	e, err := sidecar.NewExpander(nil, sidecar.Options{})
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if groups, err := e.BestOptions(gone, zoneQuestion()); err == nil {
		t.Errorf("answered %v to nobody", groups)
	}
	if got := answer(t, e); got != "a" {
		t.Errorf("then %s, want a", got)
	}
}

// TestExpanderAloneIsShared: questions, statuses and readers of the page come at the same time.
func TestExpanderAloneIsShared(t *testing.T) {
	e, err := sidecar.NewExpander(nil, sidecar.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				if _, err := e.BestOptions(t.Context(), zoneQuestion()); err != nil {
					t.Error(err)
				}
				e.Sizes(statusOf(1, 2, 3), nil)
				_ = e.Status()
			}
		})
	}
	all.Wait()
}

// TestExpanderAloneDryRun leaves the choice to others.
func TestExpanderAloneDryRun(t *testing.T) {
	e, err := sidecar.NewExpander(nil, sidecar.Options{Options: steering.Options{DryRun: true}})
	if err != nil {
		t.Fatal(err)
	}
	if got := answer(t, e); got != "a b c" {
		t.Errorf("answered %s, want all of them", got)
	}
}
