package scaleup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// Repair is what a round took back before it planned: instances that failed,
// or that did not become nodes in time.
type Repair struct {
	Group  string `json:"group"`
	Nodes  int    `json:"nodes"`
	Reason string `json:"reason"`
	Err    error  `json:"-"`
}

// repair deletes instances that will not become nodes, so that the pods that
// wait for them are seen again, and backs their groups off.
func (s *Scaler) repair(ctx context.Context, w *World, cluster Cluster) []Repair {
	registered := make(map[string]bool, len(cluster.Nodes))
	for _, n := range cluster.Nodes {
		registered[n.Node.Spec.ProviderID] = true
	}
	awaited := map[string]time.Time{}
	var repairs []Repair
	for i := range w.Groups {
		g := &w.Groups[i]
		if g.Err != nil {
			continue
		}
		instances, err := s.provider.Nodes(ctx, g.ID)
		if err != nil {
			repairs = append(repairs, Repair{Group: g.ID, Reason: "list instances", Err: err})
			continue
		}
		reason, lost := s.lost(instances, registered, awaited, w.Now)
		if len(lost) == 0 {
			continue
		}
		r := Repair{Group: g.ID, Nodes: len(lost), Reason: reason}
		if r.Err = s.provider.DeleteNodes(ctx, g.ID, lost); r.Err == nil {
			g.Target -= len(lost)
			g.Upcoming = max(0, g.Upcoming-len(lost))
		}
		s.backoff.Failed(g.ID, reason, w.Now)
		g.BackedOffUntil, g.BackoffReason, _ = s.backoff.Active(g.ID, w.Now)
		repairs = append(repairs, r)
	}
	s.awaited = awaited
	return repairs
}

// lost picks the instances that failed or took too long, and the reason.
func (s *Scaler) lost(instances []cloudprovider.Instance, registered map[string]bool, awaited map[string]time.Time, now time.Time) (string, []*v1.Node) {
	var lost []*v1.Node
	var reasons []string
	give := func(id, kind, reason string) {
		lost = append(lost, cloudprovider.FakeNode(id, kind))
		if !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	for _, instance := range instances {
		if instance.State == cloudprovider.InstanceDeleting || registered[instance.ID] {
			continue
		}
		if instance.Error != nil {
			give(instance.ID, cloudprovider.FakeNodeCreateError, fmt.Sprintf("%s: %s", instance.Error.Code, instance.Error.Message))
			continue
		}
		since, known := s.awaited[instance.ID]
		if !known {
			since = now
		}
		if now.Sub(since) >= s.opts.maxNodeProvisionTime() {
			give(instance.ID, cloudprovider.FakeNodeUnregistered, fmt.Sprintf("no node within %s", s.opts.maxNodeProvisionTime()))
			continue
		}
		awaited[instance.ID] = since
	}
	slices.Sort(reasons)
	return strings.Join(reasons, "; "), lost
}
