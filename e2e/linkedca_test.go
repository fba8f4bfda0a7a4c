package e2e

import (
	"context"
	"os"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evenkeel/evenkeel/e2e/autoscaler"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
	"github.com/evenkeel/evenkeel/e2e/evenkeel"
)

// linkedVariable names the environment variable that says where the binary of a Cluster Autoscaler
// with evenkeel linked is. It has the external cloud provider, and is not built here.
const linkedVariable = "LINKED_AUTOSCALER_BINARY"

// Idle nodes of a group above its minimum, whose partners are larger and busy, go after the
// deferral, although the autoscaler offers other ones of them in every loop.
func TestLinkedAutoscalerLetsIdleNodesGo(t *testing.T) {
	binary := os.Getenv(linkedVariable)
	if binary == "" {
		t.Skip(linkedVariable + " is not set: it names the binary of a Cluster Autoscaler with evenkeel linked")
	}
	t.Setenv(autoscaler.BinaryVariable, binary)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()

	const unneeded, deferral = 10 * time.Second, 20 * time.Second
	c := trial{groups: zones("m", 20, 3, 5, 5), mins: map[string]int64{"m-a": 1}, demands: []demand{{machine: "m", pods: 0, perNode: 1}}}
	w := &trialRun{trial: c, plane: controlplane.Start(t, controlplane.Options{}), workloads: map[string]*appsv1.Deployment{}}
	cloud := evenkeel.StartFakeCloud(t, w.plane.Kubeconfig, c.write(t))
	w.ordered = autoscaler.NewTap(t, cloud.Address)
	w.workloads["m"] = deployment("m", 0, resource.MustParse("1900m"))
	if err := w.plane.Client.Create(ctx, w.workloads["m"]); err != nil {
		t.Fatal(err)
	}
	w.pin(ctx, t, 5, "zone-b")
	w.pin(ctx, t, 5, "zone-c")
	if err := w.run(ctx); err != nil {
		t.Fatal(err)
	}
	var nodes v1.NodeList
	if err := w.plane.Client.List(ctx, &nodes); err != nil || len(nodes.Items) != 13 {
		t.Fatalf("%d nodes, %v", len(nodes.Items), err)
	}

	began := time.Now()
	autoscaler.Start(t, autoscaler.Options{Kubeconfig: w.plane.Kubeconfig, Provider: w.ordered.Address, Args: []string{
		"--balance-similar-node-groups", "--scale-down-unneeded-time=" + unneeded.String(), "--max-balance-deferral=" + deferral.String(),
		"--scale-down-delay-after-add=0s", "--scale-down-delay-after-delete=0s",
	}})
	waitForNodes(ctx, t, w.plane, func(nodes nodeSet) bool { return len(nodes) == 11 })
	took := time.Since(began)
	if sizes := w.sizes(ctx, t); sizes["m-a"] != 1 || sizes["m-b"] != 5 {
		t.Errorf("sizes are %v, want one node in m-a alone", sizes)
	}
	if took < unneeded+deferral {
		t.Errorf("the idle nodes went after %s, before their set had its time to get level", took)
	}
	t.Logf("3/5/5 -> 1/5/5 after %s, of which %s unneeded and %s deferred", took.Round(time.Second), unneeded, deferral)
	if orders := autoscaler.Increases(w.ordered.Calls()); len(orders) > 0 {
		t.Errorf("nodes were ordered: %v", orders)
	}
}
