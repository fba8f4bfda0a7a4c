package e2e

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
	"github.com/evenkeel/evenkeel/e2e/evenkeel"
)

const (
	// controllerUser is who the pod of the controller is for the API server.
	controllerUser = "system:serviceaccount:evenkeel-system:evenkeel-controller"
	// settledWithin is how long anything may take on a machine that has much else to do. It is more than the five minutes that
	// controllers of Kubernetes wait for news that they missed, such as those of pods whose creation a restart interrupted.
	settledWithin = 8 * time.Minute
	// pollInterval is how often what is waited for is read. Many tests wait at the same time.
	pollInterval = 500 * time.Millisecond
	// balancerName is the Balancer of a shop, if it has one only, and the label app of all its
	// pods.
	balancerName = "web"
	// targetLabel tells the pods of a shop's targets apart.
	targetLabel = "target"
)

// balancerCluster is a control plane that knows Balancers, and writes down who writes what.
type balancerCluster struct {
	plane *controlplane.ControlPlane
	// Client may do everything, and knows Balancers.
	client.WithWatch
	// kubeconfig has the rights that the manifests give the controller.
	kubeconfig string
}

// newBalancerCluster starts a control plane for Balancers. No controller looks after them yet.
func newBalancerCluster(ctx context.Context, t *testing.T) *balancerCluster {
	t.Helper()
	return withBalancers(ctx, t, controlplane.Start(t, controlplane.Options{Audit: true}))
}

// withBalancers installs them in a control plane.
func withBalancers(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane) *balancerCluster {
	t.Helper()
	w := &balancerCluster{plane: plane, WithWatch: balancerClient(ctx, t, plane)}
	apply(ctx, t, plane, "../controller/rbac")
	apply(ctx, t, plane, "../controller/kinds")
	for _, o := range read(t, "../controller/deploy") {
		if o.GetKind() != "ClusterRoleBinding" {
			continue
		}
		if err := client.IgnoreAlreadyExists(w.Create(ctx, o)); err != nil {
			t.Fatal(err)
		}
	}
	w.kubeconfig = plane.KubeconfigAs(t, controllerUser, "system:serviceaccounts", "system:authenticated")
	return w
}

// controller starts a controller with no more rights than the manifests give it.
func (w *balancerCluster) controller(t *testing.T, args ...string) *evenkeel.Controller {
	t.Helper()
	return evenkeel.StartController(t, evenkeel.ControllerOptions{Kubeconfig: w.kubeconfig,
		Args: append([]string{"--controllers=balancer"}, args...)})
}

// A zone is a node that has room for some pods of a shop, and a Deployment whose pods run there
// only.
type zone struct {
	name string
	room int64 // 0 means that there is no node
}

// A shop is a namespace with zones and a Balancer over their Deployments.
type shop struct {
	*balancerCluster
	namespace string
	name      string   // of the Balancer
	users     []string // who the controllers are that look after it
	zones     []string
	ledger    *ledger
	mark      controlplane.Mark // of the last change
}

// open makes a shop whose Deployments have no replicas and no Balancer yet.
func (w *balancerCluster) open(ctx context.Context, t *testing.T, namespace string, zones ...zone) *shop {
	t.Helper()
	s := &shop{balancerCluster: w, namespace: namespace, name: balancerName, users: []string{controllerUser}}
	s.create(ctx, t, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	for _, z := range zones {
		s.zones = append(s.zones, z.name)
		if z.room > 0 {
			s.addNode(ctx, t, z)
		}
		s.create(ctx, t, s.deployment(z.name))
	}
	s.ledger = follow(ctx, t, w, namespace)
	return s
}

func (s *shop) create(ctx context.Context, t *testing.T, o client.Object) {
	t.Helper()
	if err := s.Create(ctx, o); err != nil {
		t.Fatal(err)
	}
}

// node is the name of a zone's node, and its label.
func (s *shop) node(zone string) string { return s.namespace + "-" + zone }

func (s *shop) addNode(ctx context.Context, t *testing.T, z zone) {
	t.Helper()
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node(z.name), Labels: map[string]string{v1.LabelTopologyZone: s.node(z.name)}}}
	n.Status.Allocatable = v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("1000"), v1.ResourceMemory: resource.MustParse("1000Gi"),
		v1.ResourcePods: *resource.NewQuantity(z.room, resource.DecimalSI),
	}
	if err := s.plane.AddNodes(ctx, n); err != nil {
		t.Fatal(err)
	}
}

// template is of the pods of a target, which run in a zone of its name.
func (s *shop) template(target string) (*metav1.LabelSelector, v1.PodTemplateSpec) {
	of := map[string]string{"app": balancerName, targetLabel: target}
	return &metav1.LabelSelector{MatchLabels: of}, v1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: of},
		Spec: v1.PodSpec{
			NodeSelector: map[string]string{v1.LabelTopologyZone: s.node(target)},
			Containers:   []v1.Container{{Name: "main", Image: "none"}},
		},
	}
}

func (s *shop) deployment(target string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: target}}
	d.Spec.Replicas = ptr.To[int32](0)
	d.Spec.Selector, d.Spec.Template = s.template(target)
	return d
}

// proportional shares by rates.
func proportional(rates map[string]int32) v1alpha1.BalancerPolicy {
	return v1alpha1.BalancerPolicy{
		PolicyName:  v1alpha1.ProportionalPolicyName,
		Proportions: &v1alpha1.ProportionalPolicy{TargetProportions: rates},
	}
}

// priority fills in order.
func priority(order ...string) v1alpha1.BalancerPolicy {
	return v1alpha1.BalancerPolicy{
		PolicyName: v1alpha1.PriorityPolicyName,
		Priorities: &v1alpha1.PriorityPolicy{TargetOrder: order},
	}
}

// fallback is a policy with short times.
func fallback(p v1alpha1.BalancerPolicy, timeout, stable time.Duration) v1alpha1.BalancerPolicy {
	p.Fallback = &v1alpha1.Fallback{StartupTimeout: metav1.Duration{Duration: timeout}, StabilizationTime: metav1.Duration{Duration: stable}}
	return p
}

// bound sets the bounds of a target; a negative maximum is none.
func bound(spec *v1alpha1.BalancerSpec, target string, least, most int32) {
	for i := range spec.Targets {
		if spec.Targets[i].Name != target {
			continue
		}
		spec.Targets[i].MinReplicas, spec.Targets[i].MaxReplicas = ptr.To(least), nil
		if most >= 0 {
			spec.Targets[i].MaxReplicas = ptr.To(most)
		}
	}
}

// balancer is the one of the shop before it is created: over all zones.
func (s *shop) balancer(replicas int32, policy v1alpha1.BalancerPolicy) *v1alpha1.Balancer {
	b := &v1alpha1.Balancer{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name}}
	b.Spec = v1alpha1.BalancerSpec{
		Replicas: ptr.To(replicas), Policy: policy,
		Selector: v1alpha1.LabelSelector{MatchLabels: map[string]v1alpha1.LabelValue{"app": balancerName}},
	}
	for _, name := range s.zones {
		b.Spec.Targets = append(b.Spec.Targets, v1alpha1.BalancerTarget{
			Name: name, ScaleTargetRef: v1alpha1.ScaleTargetReference{Kind: "Deployment", Name: name},
		})
	}
	return b
}

// balance creates the Balancer.
func (s *shop) balance(ctx context.Context, t *testing.T, b *v1alpha1.Balancer) {
	t.Helper()
	s.begin(t)
	s.create(ctx, t, b)
}

// change changes the spec of the Balancer.
func (s *shop) change(ctx context.Context, t *testing.T, how func(*v1alpha1.BalancerSpec)) {
	t.Helper()
	s.begin(t)
	s.edit(ctx, t, how)
}

// edit is one change among others that are counted together.
func (s *shop) edit(ctx context.Context, t *testing.T, how func(*v1alpha1.BalancerSpec)) {
	t.Helper()
	b := s.get(ctx, t)
	before := client.MergeFrom(b.DeepCopy())
	how(&b.Spec)
	if err := s.Patch(ctx, b, before); err != nil {
		t.Fatal(err)
	}
}

// ask changes the number of replicas.
func (s *shop) ask(ctx context.Context, t *testing.T, replicas int32) {
	t.Helper()
	s.change(ctx, t, func(spec *v1alpha1.BalancerSpec) { spec.Replicas = ptr.To(replicas) })
}

func (s *shop) get(ctx context.Context, t *testing.T) *v1alpha1.Balancer {
	t.Helper()
	b := &v1alpha1.Balancer{}
	if err := s.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: s.name}, b); err != nil {
		t.Fatal(err)
	}
	return b
}
