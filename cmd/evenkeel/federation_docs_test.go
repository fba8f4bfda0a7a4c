package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/federation"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/placement"
	"github.com/evenkeel/evenkeel/podhealth"
	"github.com/evenkeel/evenkeel/replica"
)

const federationPage = "docs/federation.md"

// TestDocumentedFederationReasons: docs/federation.md names every reason that a condition, an event
// or a cluster of a FederatedReplicaSet can have, and every condition.
func TestDocumentedFederationReasons(t *testing.T) {
	inRoot(t)
	text := readPage(t, federationPage).prose()
	reasons := reasonsOf(t, "federation")
	for _, r := range []apportion.Reason{apportion.ReasonCapacity, apportion.ReasonMax, apportion.ReasonMin, apportion.ReasonSticky,
		apportion.ReasonWeight} {
		reasons = append(reasons, replica.Reason(r))
	}
	reasons = append(reasons, v1alpha1.ConditionPlaced, v1alpha1.ConditionSettled, v1alpha1.ConditionClustersReachable,
		v1alpha1.ConditionPreferencesClear)
	if len(reasons) < 30 {
		t.Errorf("only %d reasons were found: %v", len(reasons), reasons)
	}
	for _, reason := range reasons {
		if !strings.Contains(text, "`"+reason+"`") {
			t.Errorf("%s does not name %s", federationPage, reason)
		}
	}
}

// TestDocumentedFederation plays the table of examples in docs/federation.md: the samples over their
// member clusters, with what happens to a cluster, until nothing is written any more.
func TestDocumentedFederation(t *testing.T) {
	inRoot(t)
	row := regexp.MustCompile(`^\| \[([a-z]+)\]\([^)]+\) \| (\d+) \|([^|]*)\| ([^|]+) \|`)
	rows, seen := 0, map[string]bool{}
	for _, line := range readPage(t, federationPage).lines {
		cells := row.FindStringSubmatch(line)
		if cells == nil {
			continue
		}
		rows++
		seen[cells[1]] = true
		if got := playFederated(t, cells[1], cells[2], strings.TrimSpace(cells[3])); got != strings.TrimSpace(cells[4]) {
			t.Errorf("%s\nis %s", line, got)
		}
	}
	if rows < 14 || len(seen) < 6 {
		t.Errorf("only %d examples of %d samples were found", rows, len(seen))
	}
}

// playFederated is what each cluster has in the end. What happens is "a lost", "a runs 3", "a
// NoSchedule", "a leaves" or nothing.
func playFederated(t *testing.T, sample, replicas, happens string) string {
	files, err := document.Scan([]string{"configs/samples/federated-" + sample + ".yaml", "configs/examples/member-clusters.yaml"},
		document.Stdin(nil),
		document.Options{Kinds: objectKinds})
	if err != nil {
		t.Fatal(err)
	}
	dump, err := placement.Of(files)
	if err != nil {
		t.Fatal(err)
	}
	in := federation.Input{Key: "default/" + dump.Sets[0].Name, Generation: 1, Spec: dump.Sets[0].Spec,
		Now: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)}
	in.Spec.Replicas = number(t, replicas)
	names := []string{"cloud", "on-premise"}
	if sample != "tiers" {
		names = nil
		for _, m := range dump.Members {
			names = append(names, m.Name)
		}
	}
	for _, name := range names {
		c := federation.Cluster{Name: name}
		if i := slices.IndexFunc(dump.Members, func(m *v1alpha1.MemberCluster) bool { return m.Name == name }); i >= 0 {
			c.Labels = dump.Members[i].Labels
		}
		in.Clusters = append(in.Clusters, c)
	}
	able := map[string]int{}
	settleFederated(t, &in, able)
	for what := range strings.SplitSeq(happens, ", ") {
		name, change, _ := strings.Cut(what, " ")
		i := slices.IndexFunc(in.Clusters, func(c federation.Cluster) bool { return c.Name == name })
		switch {
		case what == "":
			continue
		case i < 0:
			t.Fatalf("no cluster %q in %q", name, happens)
		case change == "lost":
			in.Clusters[i].Reach = federation.Lost
		case change == "NoSchedule":
			in.Clusters[i].NoSchedule = true
		case change == "leaves":
			in.Clusters[i].Leaving = true
		default:
			if able[name], err = strconv.Atoi(strings.TrimPrefix(change, "runs ")); err != nil {
				t.Fatal(err)
			}
		}
	}
	settleFederated(t, &in, able)
	var sizes []string
	for _, c := range in.Status.Clusters {
		sizes = append(sizes, fmt.Sprintf("%s %d", c.Name, c.Desired))
	}
	return strings.Join(sizes, ", ")
}

// settleFederated decides, writes and lets pods start until nothing is written for as long as any
// timeout is. A cluster runs as many pods as it is able to.
func settleFederated(t *testing.T, in *federation.Input, able map[string]int) {
	t.Helper()
	normal, act := federation.Timeouts(&in.Spec)
	pods := map[string][]podhealth.Pod{}
	for quiet := 0; quiet < 10; quiet++ {
		for i := range in.Clusters {
			c := &in.Clusters[i]
			all := pods[c.Name]
			for len(all) < int(c.Local.Replicas) {
				all = append(all, podhealth.Pod{Created: in.Now, Phase: v1.PodPending})
			}
			all = all[:c.Local.Replicas]
			for j := range all {
				limit, limited := able[c.Name]
				runs := !limited || j < limit
				all[j].Phase, all[j].Ready = v1.PodPending, runs
				if runs {
					all[j].Phase, all[j].WasReady, all[j].ReadySince = v1.PodRunning, true, all[j].Created
				}
			}
			pods[c.Name] = all
			c.Local.Normal, c.Local.Act = podhealth.Count(all, normal, in.Now), podhealth.Count(all, act, in.Now)
		}
		d, err := federation.Decide(*in)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range d.Writes {
			quiet = 0
			i := slices.IndexFunc(in.Clusters, func(c federation.Cluster) bool { return c.Name == w.Cluster })
			l := &in.Clusters[i].Local
			l.Exists, l.Replicas, l.Written, l.RolledOut = true, w.To, &w.To, true
			if w.Content {
				l.Revision = federation.Revision(&in.Spec)
			}
		}
		in.Status = d.Status
		in.Now = in.Now.Add(act/2 + time.Second)
	}
}
