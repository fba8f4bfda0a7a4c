package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
	"github.com/evenkeel/evenkeel/e2e/evenkeel"
)

// What a user does with kubectl: build the manifests, apply the samples, look at an object, and have
// its dump explained.
func federatedSamples(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane, c client.WithWatch) {
	k := newKubectl(t, plane, c, "default")
	k.environment = append(k.environment, "PATH="+evenkeel.Folder(t)+":"+filepath.Dir(plane.Kubectl)+":"+os.Getenv("PATH"))
	run := func(line string) string {
		t.Helper()
		out, err := k.run(ctx, line)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(out, "\n")
	}
	has := func(out string, want ...string) {
		t.Helper()
		for _, text := range want {
			if !strings.Contains(strings.Join(strings.Fields(out), " "), text) {
				t.Errorf("%q is not in\n%s", text, out)
			}
		}
	}

	has(run("kubectl kustomize configs/controller/deploy"), "name: federatedreplicasets.evenkeel.dev", "name: memberclusters.evenkeel.dev",
		"federatedreplicasets/status")
	has(run("kubectl kustomize configs/controller/namespaced"), "federatedreplicasets/status", "memberclusters/status")
	has(run("kubectl apply --dry-run=server --validate=strict -k configs/samples"),
		"federatedreplicaset.evenkeel.dev/api created", "federatedreplicaset.evenkeel.dev/ledger created",
		"federatedreplicaset.evenkeel.dev/login created",
		"federatedreplicaset.evenkeel.dev/search created", "federatedreplicaset.evenkeel.dev/shop created",
		"federatedreplicaset.evenkeel.dev/web created",
		"horizontalpodautoscaler.autoscaling/api-federated created")

	// A cluster with the objects of the dump that the page explains.
	run("kubectl apply -f configs/examples/federated-dump.yaml")
	text, err := os.ReadFile("../configs/examples/federated-dump.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var dump struct {
		Items []v1alpha1.FederatedReplicaSet `json:"items"`
	}
	if err := yaml.Unmarshal(text, &dump); err != nil {
		t.Fatal(err)
	}
	shop := &v1alpha1.FederatedReplicaSet{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "shop"}, shop); err != nil {
		t.Fatal(err)
	}
	shop.Status = dump.Items[0].Status
	if err := c.Status().Update(ctx, shop); err != nil {
		t.Fatal(err)
	}
	has(run("kubectl get frs shop"), "NAME DESIRED CURRENT READY PLACED SETTLED AGE shop 10 12 10 True True")
	has(run("kubectl get frs shop -o wide"), "SETTLED UNPLACED MESSAGE AGE shop 10 12 10 True True 0 nothing moves or is about to")
	described := run("kubectl describe frs shop")
	for _, s := range shop.Status.Clusters {
		has(described, s.Message)
	}
	has(described, "Reason: Capacity", "Type: Settled", "Capacity: 6")
	// The template as the API server stores it is the same, so nothing is written.
	page := run("evenkeel explain -f configs/examples/federated-dump.yaml")
	if got := run("kubectl get federatedreplicasets,memberclusters -A -o yaml | evenkeel explain frs/shop -f -"); got != page {
		t.Errorf("from the API server\n%s\nfrom the example\n%s", got, page)
	}
	if got := run("kubectl get frs,memberclusters -A -o json --show-managed-fields | evenkeel explain shop -f -"); got != page {
		t.Errorf("from JSON\n%s", got)
	}
	has(run("kubectl scale frs/shop --replicas=20 && kubectl get frs,memberclusters -A -o yaml | evenkeel explain shop -f -"),
		"default/shop asks for 20 replicas: cloud 14, on-premise 8", "its status is about an earlier spec", "cloud Scale 4 14")
	run("kubectl delete -f configs/examples/federated-dump.yaml")
}

// A newcomer: the commands of the section "Start" of docs/federation.md, as they are written, with two
// real clusters that become members.
func TestFederationStart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	host := controlplane.Start(t, controlplane.Options{})
	home := t.TempDir()
	folder := filepath.Join(home, ".kube")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	names := []string{"paris", "oslo"}
	for i, plane := range append(controlplane.StartBeside(t, host, controlplane.Options{}, names...), host) {
		name := "config"
		if i < len(names) {
			name = names[i]
			if err := plane.AddNodes(ctx, roomy("one")); err != nil {
				t.Fatal(err)
			}
		}
		config, err := os.ReadFile(plane.Kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), config, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile("../docs/federation.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Start\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := strings.Split(section, "\n```sh\n")[1:]
	for i := range blocks {
		blocks[i], _, _ = strings.Cut(blocks[i], "\n```\n")
	}
	if len(blocks) != 2 {
		t.Fatalf("%d blocks of commands", len(blocks))
	}
	// In between what the text says; in the end the controller is stopped. Its default address may
	// be another test's.
	start := strings.Replace(blocks[0], "--leader-elect=false &",
		"--leader-elect=false --metrics-address=127.0.0.1:0 & trap 'kill $!' EXIT", 1)
	script := strings.Join([]string{
		"set -e", start, "kubectl --kubeconfig ~/.kube/paris get deployments",
		"kubectl scale frs/ledger --replicas=12", "kubectl wait frs/ledger --for=jsonpath='{.status.readyReplicas}'=12 --timeout=5m",
		"kubectl get frs,memberclusters -A -o yaml | evenkeel explain frs/ledger -f -", blocks[1],
	}, "\n")
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "HOME="+home, "KUBECONFIG=", "PATH="+evenkeel.Folder(t)+":"+filepath.Dir(host.Kubectl)+":"+
		os.Getenv("PATH"))
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	for _, want := range []string{
		"membercluster/paris joined", "federatedreplicaset.evenkeel.dev/ledger condition met",
		"default/ledger asks for 12 replicas: oslo 6, paris 6.\n", `federatedreplicaset.evenkeel.dev "ledger" deleted`, "membercluster/oslo left",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not in the output", want)
		}
	}
	if !regexp.MustCompile(`(?m)^ledger +9 +9 +9 +True +True `).Match(out) {
		t.Error("kubectl get does not show nine of nine replicas")
	}
}
