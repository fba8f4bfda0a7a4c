package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
	"github.com/evenkeel/evenkeel/e2e/evenkeel"
)

// A fleet is a host and three members, each a control plane of its own, and the controllers in the
// host, with no more rights than the manifests give them.
type fleetOfClusters struct {
	host       *controlplane.ControlPlane
	client     client.WithWatch
	members    map[string]*controlplane.ControlPlane
	controller *evenkeel.Controller
}

const controllerAccount = "system:serviceaccount:evenkeel-system:evenkeel-controller"

// offlineAfter is after which time without an answer a member counts as lost in the tests.
const offlineAfter = 20 * time.Second

// soon has the controllers notice soon what happens to members. An API server may take ten seconds to
// start on a busy machine, so a loss is long after that only.
var soon = []string{"--member-probe-interval=1s", "--member-probe-timeout=10s", "--member-offline-after=" + offlineAfter.String(),
	"--member-stabilization-time=3s", brief[0], brief[1], brief[2]}

// newFleetOfClusters starts it. No member has joined.
func newFleetOfClusters(ctx context.Context, t *testing.T, args ...string) *fleetOfClusters {
	t.Helper()
	o := controlplane.Options{Audit: true, Args: map[controlplane.Program][]string{
		controlplane.ControllerManager: {"--horizontal-pod-autoscaler-sync-period=2s"},
	}}
	f := newClusters(ctx, t, o, "amsterdam", "berlin", "cork")
	f.control(t, append(slices.Clone(soon), args...)...)
	return f
}

// newClusters starts the host and the members, without the controllers.
func newClusters(ctx context.Context, t *testing.T, o controlplane.Options, names ...string) *fleetOfClusters {
	t.Helper()
	f := &fleetOfClusters{host: controlplane.Start(t, o), members: map[string]*controlplane.ControlPlane{}}
	for i, plane := range controlplane.StartBeside(t, f.host, o, names...) {
		f.members[names[i]] = plane
	}
	f.install(ctx, t)
	return f
}

// install gives the host what the controllers need.
func (f *fleetOfClusters) install(ctx context.Context, t *testing.T) {
	t.Helper()
	f.client = balancerClient(ctx, t, f.host)
	apply(ctx, t, f.host, "../controller/rbac")
	for _, o := range read(t, "../controller/deploy") {
		if o.GetKind() == "ClusterRoleBinding" && strings.HasPrefix(o.GetName(), "evenkeel-controller") {
			if err := f.client.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
				t.Fatal(err)
			}
		}
	}
}

// control starts the controllers.
func (f *fleetOfClusters) control(t *testing.T, args ...string) {
	t.Helper()
	f.controller = evenkeel.StartController(t, evenkeel.ControllerOptions{
		Kubeconfig: f.host.KubeconfigAs(t, controllerAccount, "system:serviceaccounts", "system:authenticated"),
		Args:       append([]string{"--logging-format=json", "-v=4"}, args...),
	})
}

// run runs a command of evenkeel against the host, which must end with the code.
func (f *fleetOfClusters) run(t *testing.T, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	args = append(args, "--kubeconfig="+f.host.Kubeconfig)
	stdout, stderr, got := evenkeel.Run(t, args...)
	if got != code {
		t.Fatalf("evenkeel %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, code, stdout, stderr)
	}
	return stdout, stderr
}

func (f *fleetOfClusters) join(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, _ := f.run(t, 0, append([]string{"cluster", "join", name, "--member-kubeconfig=" + f.members[name].Kubeconfig}, args...)...)
	return out
}

// becomes waits until the conditions of a member have these reasons.
func (f *fleetOfClusters) becomes(ctx context.Context, t *testing.T, name, reachable, credentials string) *v1alpha1.MemberCluster {
	t.Helper()
	var m v1alpha1.MemberCluster
	until(ctx, t, fmt.Sprintf("%s is %s and %s", name, reachable, credentials), func() bool {
		if err := f.client.Get(ctx, client.ObjectKey{Name: name}, &m); err != nil {
			t.Fatal(err)
		}
		is := func(kind, reason string) bool {
			c := meta.FindStatusCondition(m.Status.Conditions, kind)
			return c != nil && c.Reason == reason
		}
		return is(v1alpha1.ConditionReachable, reachable) && is(v1alpha1.ConditionCredentialsValid, credentials)
	})
	return &m
}

// kubeconfig is what the Secret of a member holds.
func (f *fleetOfClusters) kubeconfig(ctx context.Context, t *testing.T, name string) *clientcmdapi.Config {
	t.Helper()
	var s v1.Secret
	if err := f.client.Get(ctx, client.ObjectKey{Namespace: "evenkeel-system", Name: "member-" + name}, &s); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.Load(s.Data["kubeconfig"])
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func (f *fleetOfClusters) token(ctx context.Context, t *testing.T, name string) string {
	t.Helper()
	return f.kubeconfig(ctx, t, name).AuthInfos["evenkeel"].Token
}

// as is a client with the credentials of the controllers in a member.
func (f *fleetOfClusters) as(ctx context.Context, t *testing.T, name string) client.Client {
	t.Helper()
	config, err := clientcmd.NewDefaultClientConfig(*f.kubeconfig(ctx, t, name), nil).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// restart kills the API server of a member, starts it when it is missed, and waits until the member
// is ready again. It reports whether that took less time than after which a member counts as lost:
// it may take more on a busy machine.
func (f *fleetOfClusters) restart(ctx context.Context, t *testing.T, name string) (short bool) {
	t.Helper()
	began := time.Now()
	f.members[name].Process(controlplane.APIServer).Kill()
	f.becomes(ctx, t, name, v1alpha1.ReasonNotAnswering, v1alpha1.ReasonAccepted)
	if err := f.members[name].Process(controlplane.APIServer).Launch(ctx); err != nil {
		t.Fatal(err)
	}
	f.becomes(ctx, t, name, v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
	return time.Since(began) < offlineAfter-3*time.Second
}

// events counts the events about a member with a reason.
func (f *fleetOfClusters) events(ctx context.Context, t *testing.T, name, reason string) (n int) {
	t.Helper()
	var all eventsv1.EventList
	if err := f.client.List(ctx, &all, client.InNamespace(metav1.NamespaceDefault)); err != nil {
		t.Fatal(err)
	}
	for i := range all.Items {
		if all.Items[i].Regarding.Name == name && all.Items[i].Reason == reason {
			n++
		}
	}
	return n
}

// becomesAny waits until there is a MemberCluster.
func (f *fleetOfClusters) becomesAny(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	until(ctx, t, name+" is a member", func() bool {
		return f.client.Get(ctx, client.ObjectKey{Name: name},
			&v1alpha1.MemberCluster{}) == nil
	})
}
