package simulate_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/pending"
	"github.com/evenkeel/evenkeel/internal/simulate"
)

// dumpOf reads a dump, as a document and the objects beside it.
func dumpOf(t rapid.TB, text string) (*document.Document, simulate.Files) {
	var read simulate.Dump
	for item, err := range document.Objects("dump", strings.NewReader(text), document.StreamOptions{}) {
		if err == nil {
			err = read.Add(item)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	out, err := read.Scenario(simulate.DumpOptions{Name: "dump", Max: 10})
	if err != nil {
		t.Fatal(err)
	}
	return &document.Document{File: "dump", Number: 1, Kind: v1alpha1.KindScenario, Name: "dump", Object: out.Scenario},
		simulate.Files{Objects: out.Items}
}

const web = "labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: w, controller: true}]"

func dumpedNode(name, zone, ready string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: Node
metadata: {name: %[1]s, creationTimestamp: "2026-01-01T00:00:00Z", labels: {agentpool: pool-%[2]s, topology.kubernetes.io/zone: %[2]s}}
spec: {providerID: "azure:///%[1]s"}
status:
  capacity: {cpu: 4, memory: 8Gi, pods: 110}
  conditions: [{type: Ready, status: %[3]q, lastTransitionTime: "2026-01-02T00:00:00Z"}]
`, name, zone, ready)
}

func dumpedPod(name, metadata, spec string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: default, %s}\nspec: {%s}\nstatus: {phase: Pending}\n",
		name, metadata, spec)
}

const requests = "containers: [{name: c, resources: {requests: {cpu: 1}}}]"

// TestPodsThatCountAlikeAreOne: pods of a dump that count alike on their nodes are one in memory, as a cluster may have a million.
// Those whose names or times matter stand for themselves.
func TestPodsThatCountAlikeAreOne(t *testing.T) {
	for name, c := range map[string]struct {
		metadata, spec, ready, more string
		one                         bool
	}{
		"replicas":          {metadata: web, one: true},
		"other labels":      {metadata: "labels: {app: p%s}"},
		"being deleted":     {metadata: web + `, deletionTimestamp: "2026-01-03T00:00:00Z"`},
		"of a daemon set":   {metadata: strings.Replace(web, "ReplicaSet", "DaemonSet", 1)},
		"of a stateful set": {metadata: strings.Replace(web, "ReplicaSet", "StatefulSet", 1)},
		"of a request":      {metadata: web + ", annotations: {autoscaling.x-k8s.io/consume-provisioning-request: r}"},
		"with claims":       {metadata: web, spec: "volumes: [{name: data, persistentVolumeClaim: {claimName: data-%s}}], "},
		"on a dead node":    {metadata: web, ready: "Unknown"},
		"no room, but equal priority": {metadata: web, one: true,
			more: dumpedPod("waits", web, strings.Replace(requests, "cpu: 1", "cpu: 9", 1))},
		"may be preempted": {metadata: web, more: dumpedPod("waits", web, "priority: 5, "+strings.Replace(requests, "cpu: 1", "cpu: 9", 1))},
	} {
		t.Run(name, func(t *testing.T) {
			text := dumpedNode("n1", "a", cmp.Or(c.ready, "True")) + dumpedNode("n2", "a", cmp.Or(c.ready, "True")) + c.more
			for _, of := range []string{"1", "2"} {
				text += dumpedPod("p"+of, strings.ReplaceAll(c.metadata, "%s", of), strings.ReplaceAll(c.spec, "%s", of)+"nodeName: n"+of+", "+requests)
			}
			d, files := dumpOf(t, text)
			moment, err := simulate.AtStart(t.Context(), d, files)
			if err != nil {
				t.Fatal(err)
			}
			var on []*v1.Pod
			for _, n := range moment.Nodes {
				on = append(on, n.Pods...)
			}
			if len(on) != 2 || (on[0] == on[1]) != c.one {
				t.Errorf("%d pods on nodes, one in memory: %t, want %t", len(on), len(on) == 2 && on[0] == on[1], c.one)
			}
		})
	}
}

// TestAtStartSeesWhatAFirstRoundSees: whatever is in a dump, the first round is the same with pods that are held as one.
func TestAtStartSeesWhatAFirstRoundSees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		oneOf := func(name string, of ...string) string { return rapid.SampledFrom(of).Draw(t, name) }
		var text strings.Builder
		nodes := rapid.IntRange(1, 6).Draw(t, "nodes")
		for i := range nodes {
			text.WriteString(dumpedNode(fmt.Sprint("n", i), oneOf("zone", "a", "b"), oneOf("ready", "True", "True", "True", "False")))
		}
		for i := range rapid.IntRange(0, 25).Draw(t, "pods") {
			app, kind := oneOf("app", "x", "y"), oneOf("kind", "ReplicaSet", "ReplicaSet", "StatefulSet", "DaemonSet")
			spec := fmt.Sprintf("priority: %s, containers: [{name: c, resources: {requests: {cpu: %s}}}]", oneOf("priority", "0", "0", "0", "7"),
				oneOf("cpu", "100m", "1", "2"))
			if on := rapid.IntRange(-3, nodes-1).Draw(t, "on"); on >= 0 {
				spec += fmt.Sprint(", nodeName: n", on)
			}
			spec += oneOf("with", "", "", ", volumes: [{name: data, ephemeral: {}}]",
				", topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, "+
					"labelSelector: {matchLabels: {app: "+app+"}}}]",
				", affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, "+
					"labelSelector: {matchLabels: {app: "+app+"}}}]}}")
			text.WriteString(dumpedPod(fmt.Sprint("p", i), fmt.Sprintf("creationTimestamp: %q, labels: {app: %s}, "+
				"ownerReferences: [{apiVersion: apps/v1, kind: %s, name: %s, uid: u, controller: true}]%s",
				time.Date(2026, 2, 1, 0, i, 0, 0, time.UTC).Format(time.RFC3339), app, kind, app,
				oneOf("deleted", "", "", "", `, deletionTimestamp: "2026-02-01T00:30:00Z"`)), spec))
		}
		if rapid.Bool().Draw(t, "budget") {
			text.WriteString("---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: x, namespace: default}\n" +
				"spec: {minAvailable: 2, selector: {matchLabels: {app: x}}}\n")
		}
		if rapid.Bool().Draw(t, "daemon set") {
			text.WriteString("---\napiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: agent, namespace: default}\n" +
				"spec: {template: {spec: {priority: 9, " + requests + "}}}\n")
		}
		seen := func(see func(*document.Document, simulate.Files) (*simulate.Moment, error)) string {
			moment, err := see(dumpOf(t, text.String()))
			if err != nil {
				t.Fatal(err)
			}
			spreads, err := pending.Spreads(moment.Checker, pending.OfRound(moment.Nodes, moment.Pending, moment.Groups))
			if err != nil {
				t.Fatal(err)
			}
			var on []string
			for _, n := range moment.Nodes {
				var pods []string
				for _, p := range n.Pods {
					pods = append(pods, fmt.Sprint(p.Namespace, p.Labels, p.Spec.Containers[0].Resources.Requests.Cpu(), p.Spec.Priority == nil))
				}
				slices.Sort(pods)
				on = append(on, n.Node.Name+" "+strings.Join(pods, " "))
			}
			out, err := json.MarshalIndent([]any{moment.Groups, moment.Pending, spreads, on}, "", " ")
			if err != nil {
				t.Fatal(err)
			}
			return regexp.MustCompile(`"(agent|x|y)-n\d"`).ReplaceAllString(string(out), `"$1"`) // pods of daemon sets
		}
		want := seen(func(d *document.Document, files simulate.Files) (*simulate.Moment, error) {
			setup, err := simulate.Load(d, files)
			if err != nil {
				return nil, err
			}
			return simulate.See(t.Context(), setup, 0)
		})
		got := seen(func(d *document.Document, files simulate.Files) (*simulate.Moment, error) {
			return simulate.AtStart(t.Context(), d, files)
		})
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("sees (-each pod by itself +as one):\n%s\n%s", diff, text.String())
		}
	})
}
