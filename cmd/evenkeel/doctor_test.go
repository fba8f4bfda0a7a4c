package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/evenkeel/evenkeel/internal/doctor"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/explain"
	"github.com/evenkeel/evenkeel/internal/simulate"
)

// TestDoctorOnKindsOfClusters diagnoses dumps of many kinds of clusters. Beside each dump is what the program prints, which
// -update writes.
func TestDoctorOnKindsOfClusters(t *testing.T) {
	dumps, err := filepath.Glob("testdata/clusters/*.yaml")
	if err != nil || len(dumps) < 10 {
		t.Fatal(len(dumps), "dumps:", err)
	}
	for _, dump := range dumps {
		t.Run(strings.TrimSuffix(filepath.Base(dump), ".yaml"), func(t *testing.T) {
			doctor := func(args ...string) (string, int) {
				var out, problems bytes.Buffer
				code := run(t.Context(), append([]string{"doctor", "-f", dump}, args...), strings.NewReader(""), &out, &problems)
				if problems.Len() > 0 {
					t.Errorf("%q: %s", args, problems.String())
				}
				return out.String(), code
			}
			text, code := doctor("-o", "wide")
			golden := strings.TrimSuffix(dump, ".yaml") + ".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), text); diff != "" {
				t.Errorf("prints (-want +got):\n%s", diff)
			}
			if _, fine := strings.CutPrefix(text, "nothing to do"); fine != (code == exitSuccess) || !fine && code != exitFailure {
				t.Errorf("exit code %d with\n%s", code, text)
			}
			asJSON, _ := doctor("-o", "json")
			asYAML, _ := doctor("-o", "yaml")
			converted, err := yaml.YAMLToJSON([]byte(asYAML))
			if err != nil {
				t.Fatal(err)
			}
			again, err := yaml.YAMLToJSON([]byte(asJSON))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(again), string(converted)); diff != "" {
				t.Errorf("JSON and YAML differ (-json +yaml):\n%s", diff)
			}
		})
	}
}

// TestDoctorReadsAClusterItself serves a dump as an API server does, which refuses services. A Cluster Autoscaler that does not run is
// listed first, and its status has another name.
func TestDoctorReadsAClusterItself(t *testing.T) {
	lists := map[string][]any{}
	for item, err := range document.Objects("dump", open(t, "testdata/clusters/cluster-api.yaml"), document.StreamOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		switch item.Kind {
		case "Node":
			lists["/api/v1/nodes"] = append(lists["/api/v1/nodes"], item.Object)
		case "Deployment":
			lists["/apis/apps/v1/deployments"] = append(lists["/apis/apps/v1/deployments"], item.Object)
		case "ConfigMap":
			lists["/api/v1/namespaces/capi/configmaps/cluster-autoscaler-status"] = []any{item.Object}
		}
	}
	const deployments = "/apis/apps/v1/deployments"
	stopped := lists[deployments][0].(*appsv1.Deployment).DeepCopy()
	stopped.Name, stopped.Namespace, stopped.Status.ReadyReplicas = "away", "a", 0
	args := &stopped.Spec.Template.Spec.Containers[0].Args
	*args = append(*args, "--namespace=a", "--status-config-map-name=b")
	lists[deployments] = slices.Insert(lists[deployments], 0, any(stopped))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := func(code int, value any) {
			w.WriteHeader(code)
			if err := json.NewEncoder(w).Encode(value); err != nil {
				t.Error(err)
			}
		}
		objects, known := lists[r.URL.Path]
		switch {
		case r.Method != http.MethodGet:
			t.Errorf("%s %s", r.Method, r.URL.Path)
		case r.URL.Path == "/api/v1/services":
			answer(http.StatusForbidden, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: 403,
				Reason: metav1.StatusReasonForbidden, Message: "services is forbidden"})
		case strings.Contains(r.URL.Path, "/configmaps/") && known:
			answer(http.StatusOK, objects[0])
		case known || r.URL.Path == "/api/v1/pods":
			answer(http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{},
				"items": append([]any{}, objects...)})
		default:
			answer(http.StatusNotFound, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: 404,
				Reason: metav1.StatusReasonNotFound})
		}
	}))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, "+
		"context: {cluster: c}}]\ncurrent-context: c\n", server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for moment, stale := range map[string]bool{"2026-06-01T12:00:30Z": false, "2026-06-01T13:00:00Z": true} {
		var out, problems bytes.Buffer
		code := run(t.Context(), []string{"doctor", "--kubeconfig", kubeconfig, "--now", moment}, strings.NewReader(""), &out, &problems)
		if code != exitFailure || problems.Len() > 0 {
			t.Errorf("exit code %d: %s", code, problems.String())
		}
		for _, want := range []string{"--balancing-label=node.kubernetes.io/instance-type",
			"MissingRights: not everything may be read: services of", "md-a,md-b   6"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("does not show %q:\n%s", want, out.String())
			}
		}
		if strings.Contains(out.String(), "OldStatus") != stale {
			t.Errorf("at %s:\n%s", moment, out.String())
		}
	}
}

// A snapshot has the template of a group without nodes, so that it is found how Cluster Autoscaler compares it.
func TestDoctorReadsASnapshot(t *testing.T) {
	var out, problems bytes.Buffer
	code := run(t.Context(), []string{"doctor", "testdata/clusters/cluster-api.yaml", "--snapshot",
		"testdata/clusters/cluster-api-snapshot.json"}, strings.NewReader(""), &out, &problems)
	if code != exitFailure || problems.Len() > 0 {
		t.Fatalf("exit code %d: %s", code, problems.String())
	}
	for _, want := range []string{
		"MachineDeployment/capi/md-c,md-a,md-b   6       2       false",
		"no node is in MachineDeployment/capi/md-c, so it compares the template of the cloud",
		"--balancing-label=node.kubernetes.io/instance-type",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("does not show %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "without a node, so that") {
		t.Errorf("the template of a group is missing:\n%s", out.String())
	}
}

// A ProvisioningRequest of the cluster decides how small the increases of an expander may be, and whether it is enough.
func TestDoctorMindsProvisioningRequests(t *testing.T) {
	text, err := io.ReadAll(open(t, "testdata/clusters/taints.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	const request = "\n---\napiVersion: autoscaling.x-k8s.io/v1\nkind: ProvisioningRequest\nmetadata: {name: training, namespace: ml}\n" +
		"spec: {provisioningClassName: %s.autoscaling.x-k8s.io, podSets: [{podTemplateRef: {name: t}, count: 3}, " +
		"{podTemplateRef: {name: t}, count: %d}]}\n"
	for name, c := range map[string]struct {
		class string
		count int
		want  string
	}{
		"small":          {"best-effort-atomic-scale-up", 9, "--max-nodes-per-scaleup=12"},
		"large":          {"best-effort-atomic-scale-up", 97, "the largest here has 100 pods"},
		"no nodes of it": {"check-capacity", 97, "none is there now"},
	} {
		dump := strings.NewReplacer("v1.29.0", "v1.36.0", "- --cloud-provider=aws",
			"- --cloud-provider=aws\n        - --enable-provisioning-requests=true").Replace(string(text))
		var out, problems bytes.Buffer
		code := run(t.Context(), []string{"doctor", "-"}, strings.NewReader(dump+fmt.Sprintf(request, c.class, c.count)), &out, &problems)
		if code != exitFailure || problems.Len() > 0 || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: exit code %d, %s%s, want %q", name, code, problems.String(), out.String(), c.want)
		}
	}
}

// TestDoctorSimulates plays the pods of a dump: as it is all nodes are in one group, and as recommended they are even.
func TestDoctorSimulates(t *testing.T) {
	doctorOf := func(args ...string) string {
		var out, problems bytes.Buffer
		if code := run(t.Context(), append([]string{"doctor", "../../configs/examples/cluster-dump.yaml"}, args...), strings.NewReader(""), &out,
			&problems); code != exitFailure {
			t.Fatalf("exit code %d: %s", code, problems.String())
		}
		return out.String()
	}
	var d doctor.Diagnosis
	if err := json.Unmarshal([]byte(doctorOf("--simulate", "-o", "json")), &d); err != nil {
		t.Fatal(err)
	}
	apart := map[string]int{}
	for _, r := range d.Status.Simulated {
		if apart[r.Autoscaler] = r.Apart; r.Running != 11 || r.Pending != 0 || r.Nodes != 11 || r.Wait == "" {
			t.Errorf("%+v", r)
		}
	}
	if len(apart) != len(simulate.Modes())+1 || apart["stock"] < 4 || apart["stock, as recommended"] > 1 || apart["linked"] > 0 ||
		apart["sidecar"] > 0 {
		t.Errorf("nodes apart: %v", apart)
	}
	page := doctorOf("-o", "html")
	if !strings.HasPrefix(strings.TrimSpace(page), "<!DOCTYPE html>") {
		t.Errorf("the page begins with %.60q", page)
	}
	for name := range apart {
		if !strings.Contains(strings.ToLower(page), name) {
			t.Errorf("the page does not name the run %q", name)
		}
	}
}

func open(t *testing.T, name string) io.Reader {
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(text)
}

func TestDoctorRefusesBadInput(t *testing.T) {
	for want, args := range map[string][]string{
		"no such file": {"missing.yaml"},
		"the name of a file is empty (name a file, or - for standard input)": {""},
		"holds no Node": {"../../configs/examples/split.yaml"},
		"--kubeconfig cannot be combined with dump.yaml": {"dump.yaml", "--kubeconfig=k"},
		"must be one of table, wide, json, yaml, html":   {"-o", "pdf"},
		"must be a time": {"--now=noon"},
		"--group-label: no node has the label missing": {"testdata/clusters/none.yaml", "--group-label=missing"},
		"--group-label": {"testdata/clusters/none.yaml", "-o", "html", "--group-label=missing"},
	} {
		var out, problems bytes.Buffer
		if code := run(t.Context(), append([]string{"doctor"}, args...), strings.NewReader(""), &out, &problems); code != exitUsage ||
			!strings.Contains(problems.String(), want) || out.Len() > 0 {
			t.Errorf("%q: exit code %d, %s%s, want %q", args, code, out.String(), problems.String(), want)
		}
	}
}

// checkedUp reads the dump of a kind of clusters, with more objects.
func checkedUp(t *testing.T, dump, more string) *checkup {
	t.Helper()
	text, err := os.ReadFile(dump)
	if err != nil {
		t.Fatal(err)
	}
	c := &checkup{source: source{limit: document.DefaultMaxStream, files: []string{"-"}}}
	cmd := newDoctor()
	cmd.SetContext(t.Context())
	cmd.SetIn(strings.NewReader(string(text) + "\n---\n" + more))
	if _, err := c.observe(cmd, func(simulate.Progress) {}); err != nil {
		t.Fatal(dump, err)
	}
	return c
}

// TestDoctorComparesWhatExplainCompares reads each dump by both commands, for doctor with a pod more, which has nothing to do with the
// groups: a group has the same template.
func TestDoctorComparesWhatExplainCompares(t *testing.T) {
	dumps, err := filepath.Glob("testdata/clusters/*.yaml")
	if err != nil || len(dumps) < 10 {
		t.Fatal(len(dumps), "dumps:", err)
	}
	const pod = "{apiVersion: v1, kind: Pod, metadata: {name: late, namespace: default, creationTimestamp: \"2030-01-01T00:00:00Z\"}, " +
		"spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}}\n"
	compared := 0
	for _, dump := range dumps {
		observation := &checkedUp(t, dump, pod).observation
		if observation.Label == "" {
			continue
		}
		fleet, err := explain.Read(explain.Sources{Nodes: dump, Pods: dump, GroupLabel: observation.Label},
			explain.Files{Open: func(name string) (io.ReadCloser, error) {
				text, err := os.ReadFile(name)
				return io.NopCloser(strings.NewReader(string(text) + "\n---\n" + pod)), err
			}})
		if err != nil {
			t.Error(dump, err)
			continue
		}
		for _, g := range observation.Groups {
			want, found := fleet.Groups[g.Name]
			if !found { // without nodes
				continue
			}
			compared++
			if diff := cmp.Diff(want.Node, g.Template.Node, cmpopts.IgnoreFields(v1.NodeStatus{}, "Conditions")); diff != "" {
				t.Errorf("%s: node of %s (-explain +doctor):\n%s", dump, g.Name, diff)
			}
			if len(want.Pods) != len(g.Template.Pods) {
				t.Errorf("%s: %d pods on a node of %s, and %d to doctor", dump, len(want.Pods), g.Name, len(g.Template.Pods))
			}
		}
	}
	if compared < 20 {
		t.Errorf("compared %d groups", compared)
	}
}

// The runs choose by the strategies of --expander, by the names that groups have in the cloud.
func TestDoctorPlaysTheStrategies(t *testing.T) {
	priorities := func(text string) string {
		return "{apiVersion: v1, kind: ConfigMap, metadata: {name: cluster-autoscaler-priority-expander, namespace: kube-system}, " +
			"data: {priorities: '" + text + "'}}\n"
	}
	for name, c := range map[string]struct {
		flag, more string
		expander   string
		priorities map[string][]string
		note       string
	}{
		"none":      {"--v=4", "", "least-waste", nil, ""},
		"some":      {"--expander=most-pods, least-waste", "", "most-pods,least-waste", nil, ""},
		"elsewhere": {"--expander=price,grpc,random", "", "random", nil, "price,grpc decides is not played: the runs choose by random"},
		"unknown":   {"--expander=best", "", "", nil, "--expander=best decides is not played: the runs choose by least-waste"},
		"by priority": {"--expander=priority,random", priorities(`{50: ["pool-.*1"], 10: [".*"]}`), "priority,random",
			map[string][]string{"50": {"^pool-fsn1$", "^pool-hel1$", "^pool-nbg1$"}, "10": {"^masters$", "^static$"}}, ""},
		"without priorities":    {"--expander=priority,random", "", "random", nil, "--expander=priority decides is not played"},
		"with wrong priorities": {"--expander=priority", priorities("{"), "", nil, "--expander=priority decides is not played"},
	} {
		text, err := os.ReadFile("testdata/clusters/hetzner.yaml")
		if err != nil {
			t.Fatal(err)
		}
		dump := filepath.Join(t.TempDir(), "dump.yaml")
		with := strings.Replace(string(text), "--cloud-provider=hetzner", "--cloud-provider=hetzner, '"+c.flag+"'", 1)
		if err := os.WriteFile(dump, []byte(with), 0o600); err != nil {
			t.Fatal(err)
		}
		read := checkedUp(t, dump, c.more)
		d, err := doctor.Diagnose(&read.observation)
		if err != nil {
			t.Fatal(err)
		}
		played, err := newTrial(read.scenario(), d.Status.Trial)
		if err != nil {
			t.Fatal(err)
		}
		note := read.strategies(played)
		if o := played.scenario.Spec.Options; o.Expander != c.expander || !strings.Contains(note, c.note) || c.note == "" && note != "" {
			t.Errorf("%s: --expander=%s, note %q", name, o.Expander, note)
		} else if diff := cmp.Diff(c.priorities, o.Priorities); diff != "" {
			t.Errorf("%s: priorities (-want +got):\n%s", name, diff)
		}
		if _, err := played.setup(simulate.Stock, &played.Now); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a recommendation costs in its own simulation is said beside it.
func TestDrawbacks(t *testing.T) {
	now := doctor.Simulation{Nodes: 11, Apart: 3, Running: 11, Wait: "1m0s"}
	for want, change := range map[string]func(*doctor.Simulation){
		"":                                   func(s *doctor.Simulation) { s.Nodes, s.Apart, s.Wait = 10, 0, "1m10s" },
		"2 pending pods instead of 0":        func(s *doctor.Simulation) { s.Pending, s.Running = 2, 9 },
		"a P99-WAIT of 2m0s instead of 1m0s": func(s *doctor.Simulation) { s.Wait = "2m0s" },
		"12 nodes instead of 11, 4 nodes apart instead of 3": func(s *doctor.Simulation) { s.Nodes, s.Apart = 12, 4 },
	} {
		recommended := now
		change(&recommended)
		if got := drawbacks(now, recommended); got != want {
			t.Errorf("%+v: %q, want %q", recommended, got, want)
		}
	}
}
