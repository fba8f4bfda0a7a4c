package controlplane_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/e2e/controlplane"
)

// A Deployment's pods are bound by the scheduler and run on nodes that kwok
// plays, before and after restarts.
func TestControlPlaneRunsADeployment(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	began := time.Now()
	c := controlplane.Start(t, controlplane.Options{})
	t.Logf("started in %v", time.Since(began).Round(time.Millisecond))
	for i := range 3 {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)}}
		n.Status.Allocatable = v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("8Gi"), v1.ResourcePods: resource.MustParse("10"),
		}
		if err := c.AddNodes(ctx, n); err != nil {
			t.Fatal(err)
		}
		if got := n.Status.Allocatable.Cpu().String(); got != "4" {
			t.Errorf("%s has %s allocatable cores, want 4", n.Name, got)
		}
	}
	d := deployment("web", 6)
	if err := c.Client.Create(ctx, d); err != nil {
		t.Fatal(err)
	}
	running := func() bool { return d.Status.AvailableReplicas == *d.Spec.Replicas }
	if err := c.Until(ctx, d, running); err != nil {
		t.Fatal(err)
	}
	t.Logf("6 pods ran after %v", time.Since(began).Round(time.Millisecond))
	for i, p := range []controlplane.Program{controlplane.APIServer, controlplane.Scheduler, controlplane.ControllerManager} {
		if err := c.Restart(ctx, p); err != nil {
			t.Fatal(err)
		}
		scale(ctx, t, c, d, 7+int32(i))
		if err := c.Until(ctx, d, running); err != nil {
			t.Fatalf("after a restart of %s: %v", p, err)
		}
		t.Logf("%s restarted and one more pod ran after %v", p, time.Since(began).Round(time.Millisecond))
	}
	var pods v1.PodList
	if err := c.Client.List(ctx, &pods); err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		if p.Spec.NodeName == "" || p.Status.Phase != v1.PodRunning {
			t.Errorf("%s is %s on node %q", p.Name, p.Status.Phase, p.Spec.NodeName)
		}
	}
	if got := len(pods.Items); got != 9 {
		t.Errorf("%d pods, want 9", got)
	}
}

func TestKubeconfigReachesThePinnedVersion(t *testing.T) {
	t.Parallel()
	c := controlplane.Start(t, controlplane.Options{
		Bare: true,
		Args: map[controlplane.Program][]string{controlplane.APIServer: {"--max-requests-inflight=100"}},
	})
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	v, err := d.ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if v.Major != "1" || v.Minor != "36" || v.GitVersion != "v1.36.3" {
		t.Errorf("the server is %+v, want 1.36.3", v)
	}
}

func deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(replicas),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: v1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "none"}}},
			},
		},
	}
}

// scale changes only the replicas, so that controllers' own updates do not clash.
func scale(ctx context.Context, t *testing.T, c *controlplane.ControlPlane, d *appsv1.Deployment, replicas int32) {
	t.Helper()
	before := client.MergeFrom(d.DeepCopy())
	d.Spec.Replicas = &replicas
	if err := c.Client.Patch(ctx, d, before); err != nil {
		t.Fatal(err)
	}
}

// The controller manager ends if the API server goes away before it has built its
// controllers, although it says that it is healthy.
func TestAPIServerRestartsRightAfterTheStart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c := controlplane.Start(t, controlplane.Options{})
	if err := c.Restart(ctx, controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
	if err := c.AddNodes(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "late"}}); err != nil {
		t.Fatal(err)
	}
}
