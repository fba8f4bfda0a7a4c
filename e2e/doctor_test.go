package e2e

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/e2e/autoscaler"
	"github.com/evenkeel/evenkeel/e2e/evenkeel"
)

// A stock Cluster Autoscaler with its defaults fills one group. The doctor says so, its command sets the flag in the
// Deployment, and with the flags that stand there then the next nodes make the set even, and nothing is found any more.
func TestDoctorOnAStockAutoscaler(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	c := trial{
		groups:  []group{{"zone-a", "m", 1, 20}, {"zone-b", "m", 1, 20}, {"zone-c", "m", 1, 20}},
		demands: []demand{{machine: "m", pods: 9, perNode: 1}}, boot: 3 * time.Second,
	}
	by := deployment("m", 1, resource.MustParse("1m"))
	by.Namespace, by.Name = metav1.NamespaceSystem, "cluster-autoscaler"
	container := &by.Spec.Template.Spec.Containers[0]
	container.Image = "registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.1"
	container.Command = []string{"./cluster-autoscaler", "--cloud-provider=externalgrpc", "--scale-down-enabled=false"}
	c.flags = container.Command[2:]
	c.prepare = func(ctx context.Context, t *testing.T, w *trialRun) {
		if err := w.plane.Client.Create(ctx, by); err != nil {
			t.Fatal(err)
		}
		if err := w.plane.Until(ctx, by, func() bool { return by.Status.ReadyReplicas == 1 }); err != nil {
			t.Fatal(err)
		}
	}
	w := startTrial(ctx, t, c, false)
	w.play(ctx, t)
	before := diagnose(t, w)
	if len(before.Findings) != 1 || before.Findings[0].Reason != "BalancingOff" || before.Findings[0].NodesApart != 6 {
		t.Errorf("of %v it finds %+v", w.sizes(ctx, t), before.Findings)
	}
	if err := w.autoscaler.Stop(); err != nil {
		t.Fatal(err)
	}
	newKubectl(t, w.plane, w.plane.Client, metav1.NamespaceDefault).must(ctx, t, before.Recommendation.Command)
	if err := w.plane.Until(ctx, by, func() bool {
		return slices.Contains(flagsOf(by), "--balance-similar-node-groups=true") && by.Status.ObservedGeneration == by.Generation &&
			by.Status.ReadyReplicas == 1
	}); err != nil {
		t.Fatal(err)
	}
	w.autoscaler = autoscaler.Start(t, autoscaler.Options{Kubeconfig: w.plane.Kubeconfig, Provider: w.ordered.Address, Args: flagsOf(by)[2:]})
	w.play(ctx, t)
	if after := diagnose(t, w); len(after.Findings) > 0 || !strings.HasPrefix(after.Answer, "nothing to do") {
		t.Errorf("of %v it finds %+v: %s", w.sizes(ctx, t), after.Findings, after.Answer)
	}
}

func flagsOf(by *appsv1.Deployment) []string { return by.Spec.Template.Spec.Containers[0].Command }

// diagnosis is what the test reads of the document.
type diagnosis struct {
	Answer   string `json:"verdict"`
	Findings []struct {
		Reason     string `json:"reason"`
		Message    string `json:"message"`
		NodesApart int    `json:"nodesApart"`
	} `json:"findings"`
	Recommendation struct {
		Command string `json:"command"`
	} `json:"recommendation"`
}

// diagnose asks the doctor about the cluster.
func diagnose(t *testing.T, w *trialRun) diagnosis {
	t.Helper()
	out, problems, code := evenkeel.Run(t, "doctor", "--kubeconfig="+w.plane.Kubeconfig, "-o", "json")
	var d struct {
		Kind   string    `json:"kind"`
		Status diagnosis `json:"status"`
	}
	if err := json.Unmarshal([]byte(out), &d); err != nil || d.Kind != "ClusterDiagnosis" || (code == 0) != (len(d.Status.Findings) == 0) {
		t.Fatalf("exit code %d: %s\n%s", code, problems, out)
	}
	return d.Status
}
