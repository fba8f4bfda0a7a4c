package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/e2e/controlplane"
	"github.com/evenkeel/evenkeel/e2e/evenkeel"
)

// A scenario of a cluster is the one of what kubectl prints of it, more than one
// page of pods, volumes and the status of Cluster Autoscaler included.
func TestScenarioOfARunningCluster(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	plane := controlplane.Start(t, controlplane.Options{})
	k := newKubectl(t, plane, plane.Client, metav1.NamespaceDefault)
	populate(ctx, t, plane, k)

	t.Run("is that of its dump", func(t *testing.T) {
		for {
			before := scenarioOfDump(ctx, t, k)
			live, notes, code := evenkeel.Run(t, "scenario", "from-dump", "--kubeconfig="+plane.Kubeconfig)
			if code != 0 {
				t.Fatalf("exit code %d: %s", code, notes)
			}
			if scenarioOfDump(ctx, t, k) != before {
				continue // something has changed meanwhile
			}
			if live != before {
				t.Errorf("of the dump:\n%s\nof the cluster:\n%s", before, live)
			}
			if want := "Cluster Autoscaler knows groups for which no node was found"; strings.Count(notes, "note: ") != 1 ||
				!strings.Contains(notes, want) || !strings.Contains(notes, "eks-gone-1") {
				t.Errorf("notes:\n%s\nwant one of %q", notes, want)
			}
			if pods := objects(live, "Pod"); pods < 600 {
				t.Errorf("%d pods", pods)
			}
			return
		}
	})
	t.Run("is played", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "scenario.yaml")
		live, _, _ := evenkeel.Run(t, "scenario", "from-dump", "--kubeconfig="+plane.Kubeconfig, "--context=e2e")
		if err := os.WriteFile(file, []byte(live), 0o600); err != nil {
			t.Fatal(err)
		}
		table, problems, code := evenkeel.Run(t, "simulate", "-f", file)
		if code != 0 || !strings.Contains(table, "600 pods running, 2 pending") {
			t.Errorf("exit code %d: %s\n%s", code, problems, table)
		}
	})
	t.Run("with few rights", func(t *testing.T) {
		k.must(ctx, t, "kubectl create clusterrole few --verb=list --resource=nodes,pods",
			"kubectl create clusterrolebinding few --clusterrole=few --user=jane")
		until(ctx, t, "jane may list pods", func() bool { _, err := k.run(ctx, "kubectl auth can-i list pods -A --as=jane"); return err == nil })
		few, notes, code := evenkeel.Run(t, "scenario", "from-dump", "--kubeconfig="+plane.KubeconfigAs(t, "jane"))
		if code != 0 || objects(few, "Pod") < 600 || objects(few, "DaemonSet") > 0 {
			t.Errorf("exit code %d: %s", code, notes)
		}
		for _, want := range []string{
			"note: daemonsets.apps of " + plane.Config.Host, `"jane" cannot list resource "daemonsets"`, ": daemon sets are taken from their pods",
			"note: csistoragecapacities.storage.k8s.io of " + plane.Config.Host, `"jane" cannot get resource "configmaps"`,
		} {
			if !strings.Contains(notes, want) {
				t.Errorf("notes do not say %q:\n%s", want, notes)
			}
		}
	})
	t.Run("without the right to list pods", func(t *testing.T) {
		k.must(ctx, t, "kubectl create clusterrole fewer --verb=list --resource=nodes",
			"kubectl create clusterrolebinding fewer --clusterrole=fewer --user=joe")
		until(ctx, t, "joe may list nodes", func() bool { _, err := k.run(ctx, "kubectl auth can-i list nodes --as=joe"); return err == nil })
		out, problems, code := evenkeel.Run(t, "scenario", "from-dump", "--kubeconfig="+plane.KubeconfigAs(t, "joe"))
		if out != "" || code != 1 || !strings.HasPrefix(problems, "error: pods of "+plane.Config.Host+": ") ||
			!strings.Contains(problems, `User "joe" cannot list resource "pods"`) || !strings.Contains(problems, "give the user the right") {
			t.Errorf("exit code %d, output %q, problems %q", code, out, problems)
		}
	})
	t.Run("with the rights of the documentation", func(t *testing.T) {
		k.must(ctx, t, documented(t, "../docs/simulate.md", "kubectl create ")...)
		_, notes, code := evenkeel.Run(t, "scenario", "from-dump", "--kubeconfig="+plane.KubeconfigAs(t, "planner"))
		if code != 0 || strings.Contains(notes, "cannot") {
			t.Errorf("exit code %d, notes:\n%s", code, notes)
		}
		if out, problems, _ := evenkeel.Run(t, "doctor", "--kubeconfig="+plane.KubeconfigAs(t, "planner")); !strings.Contains(out,
			"MissingRights") || !strings.Contains(out, `cannot list resource "deployments"`) {
			t.Errorf("without the right to list Deployments the doctor says %s%s", problems, out)
		}
		k.must(ctx, t, documented(t, "../docs/doctor.md", "kubectl create ")...)
		if out, problems, _ := evenkeel.Run(t, "doctor", "--kubeconfig="+plane.KubeconfigAs(t, "planner")); !strings.Contains(out,
			"web-a,web-b") || strings.Contains(out, "MissingRights") {
			t.Errorf("with the rights of its page the doctor says %s%s", problems, out)
		}
	})
}

// objects counts the objects of a kind in a scenario.
func objects(scenario, kind string) int { return strings.Count(scenario, "\n    kind: "+kind+"\n") }

// documented are the command lines of a page that begin with a word.
func documented(t *testing.T, page, begin string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", "")) {
		if strings.HasPrefix(line, begin) {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		t.Fatalf("%s has no line that begins with %q", page, begin)
	}
	return lines
}

// must runs command lines that must not fail.
func (k *kubectl) must(ctx context.Context, t *testing.T, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if _, err := k.run(ctx, line); err != nil {
			t.Fatal(err)
		}
	}
}

// scenarioOfDump makes a scenario as the documentation says, by kubectl and files.
func scenarioOfDump(ctx context.Context, t *testing.T, k *kubectl) string {
	t.Helper()
	home := t.TempDir()
	var files []string
	for i, line := range documented(t, "../docs/simulate.md", "kubectl get ") {
		if !strings.Contains(line, ">") {
			continue // into a pipe
		}
		command, _, _ := strings.Cut(line, ">")
		file := filepath.Join(home, fmt.Sprintf("%d.yaml", i))
		k.must(ctx, t, command+" > "+file)
		files = append(files, file)
	}
	scenario, problems, code := evenkeel.Run(t, append([]string{"scenario", "from-dump"}, files...)...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, problems)
	}
	return scenario
}

// populate makes a cluster of two node groups with a daemon set, a stateful set
// whose claims wait, 600 pods that run, and two that fit nowhere.
func populate(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane, k *kubectl) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, []byte(clusterObjects), 0o600); err != nil {
		t.Fatal(err)
	}
	k.must(ctx, t, "kubectl apply -f "+file)
	for _, zone := range []string{"a", "b"} {
		for i := range 3 {
			amounts := v1.ResourceList{v1.ResourceCPU: resource.MustParse("64"), v1.ResourceMemory: resource.MustParse("256Gi"),
				v1.ResourcePods: resource.MustParse("250")}
			if err := plane.AddNodes(ctx, &v1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", zone, i), Labels: map[string]string{
					"eks.amazonaws.com/nodegroup": "web-" + zone, v1.LabelTopologyZone: zone,
				}},
				Status: v1.NodeStatus{Capacity: amounts, Allocatable: amounts},
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	create := func(app string, number int, cpu string) {
		p := pod(requests(cpu, "10Mi", ""))
		p.Name, p.GenerateName, p.Labels = fmt.Sprintf("%s-%03d", app, number), "", map[string]string{"app": app}
		if err := plane.Client.Create(ctx, p); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 600 {
		create("web", i, "100m")
	}
	create("large", 0, "65")
	create("large", 1, "65")
	until(ctx, t, "600 pods and those of the daemon set run, and two cannot be scheduled", func() bool {
		var pods v1.PodList
		if err := plane.Client.List(ctx, &pods); err != nil {
			t.Fatal(err)
		}
		running, refused := 0, 0
		for i := range pods.Items {
			for _, c := range pods.Items[i].Status.Conditions {
				switch {
				case c.Type == v1.PodReady && c.Status == v1.ConditionTrue:
					running++
				case c.Type == v1.PodScheduled && c.Reason == v1.PodReasonUnschedulable:
					refused++
				}
			}
		}
		return running == 606 && refused == 2
	})
}

const clusterObjects = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: default}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: c, image: agent, resources: {requests: {cpu: 50m}}}]}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: late}
provisioner: example.com/disk
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: default}
spec: {accessModes: [ReadWriteOnce], storageClassName: late, resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: cluster-autoscaler-status, namespace: kube-system}
data:
  status: |
    time: 2026-07-01 12:00:00 +0000 UTC
    autoscalerStatus: Running
    nodeGroups:
    - {name: eks-web-a-1, health: {status: Healthy, cloudProviderTarget: 3, minSize: 1, maxSize: 9}}
    - {name: eks-web-b-1, health: {status: Healthy, cloudProviderTarget: 3, minSize: 1, maxSize: 9}}
    - {name: eks-gone-1, health: {status: Healthy, cloudProviderTarget: 0, minSize: 0, maxSize: 5}}
`
