package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
	"github.com/evenkeel/evenkeel/e2e/evenkeel"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/expander/grpcexpander"
	"github.com/evenkeel/evenkeel/sidecar/cluster"
)

// A user with no more rights than the manual names marks a zone in the ConfigMap, and a sidecar with no
// more than the manifests give it obeys, until the zone is returned.
func TestZonesAreShiftedAwayByAConfigMap(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	plane := controlplane.Start(t, controlplane.Options{})
	apply(ctx, t, plane, "rbac")
	user := userOfZones(ctx, t, plane)
	fleet := trial{groups: zones("m", 20, 1, 1, 1), demands: []demand{{machine: "m", perNode: 1}}}
	cloud := evenkeel.StartFakeCloud(t, plane.Kubeconfig, fleet.write(t))
	side := evenkeel.StartSidecar(t, evenkeel.SidecarOptions{
		Backend: cloud.Address, Args: []string{"--zonal-shift-configmap=evenkeel-zonal-shift", "--zonal-shift-return-interval=1h",
			"--leader-identity=e2e"},
		Kubeconfig: plane.KubeconfigAs(t, serviceAccount(plane).Impersonate.UserName, serviceAccount(plane).Impersonate.Groups...),
	})
	lead(ctx, t, plane, "e2e")
	loop := newLoop(t, side)
	until(ctx, t, "every group has its node", func() bool {
		nodes := &v1.NodeList{}
		return plane.Client.List(ctx, nodes) == nil && len(nodes.Items) == 3
	})
	zone := func(args ...string) {
		t.Helper()
		out, problem, code := evenkeel.Run(t, append([]string{"zone", "--kubeconfig=" + user}, args...)...)
		if code != 0 {
			t.Fatalf("evenkeel zone %s: exit code %d: %s%s", strings.Join(args, " "), code, out, problem)
		}
	}
	if _, problem, code := evenkeel.Run(t, "zone", "shift", "zone-x", "--kubeconfig="+user); code == 0 ||
		!strings.Contains(problem, "zone-a, zone-b, zone-c") {
		t.Errorf("a zone without a node is shifted away: exit code %d, %s", code, problem)
	}

	zone("shift", "zone-b", "--reason=power failure")
	until(ctx, t, "the sidecar has read the mark",
		func() bool { return loop.look(ctx) == nil && shiftedZone(ctx, t, side) == "zone-b: power failure" })
	until(ctx, t, "the metric says so", func() bool {
		return loop.look(ctx) == nil && metricOf(ctx, t, side,
			"evenkeel_sidecar_zone_shifted") == `{domain="zone-b",topology_key="topology.kubernetes.io/zone"} 1`
	})
	until(ctx, t, "an event says so", func() bool { return hasEvent(ctx, plane, "ZoneShifted", "power failure") })
	if got, want := loop.grow(ctx, t, 6), []int{4, 1, 4}; !slices.Equal(got, want) {
		t.Errorf("six nodes more make the sizes %v, want %v", got, want)
	}
	if err := loop.provider.IncreaseSize(ctx, "m-b", 2); err != nil {
		t.Errorf("an increase there is refused instead of granted nothing: %v", err)
	}
	if got := loop.sizes(ctx, t); got[1] != 1 {
		t.Errorf("an increase in the zone makes the sizes %v", got)
	}

	zone("return", "zone-b")
	until(ctx, t, "the sidecar has read the return", func() bool { return loop.look(ctx) == nil && shiftedZone(ctx, t, side) == "" })
	until(ctx, t, "an event says so", func() bool { return hasEvent(ctx, plane, "ZoneReturned", "zone-b") })
	until(ctx, t, "the metric says so", func() bool {
		return loop.look(ctx) == nil && metricOf(ctx, t, side, "evenkeel_sidecar_zone_shifted") == ""
	})
	// It lacks three nodes, of which it makes up for one in an interval beside its share.
	if got, want := loop.grow(ctx, t, 4), []int{5, 3, 5}; !slices.Equal(got, want) {
		t.Errorf("four nodes more after the return make the sizes %v, want %v", got, want)
	}
}

// lead makes somebody the holder of Cluster Autoscaler's lease, so that the sidecar may write.
func lead(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane, name string) {
	t.Helper()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: cluster.DefaultLease},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: ptr.To[int32](3600),
			RenewTime: ptr.To(metav1.NowMicro())},
	}
	if err := plane.Client.Create(ctx, lease); err != nil {
		t.Fatal(err)
	}
}

// userOfZones makes a user with the rights that the manual names for evenkeel zone, and returns a
// kubeconfig.
func userOfZones(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane) string {
	t.Helper()
	const name = "zones"
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}}
	inSystem := metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceSystem}
	for _, o := range []client.Object{
		&rbacv1.Role{ObjectMeta: inSystem, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}}, // cannot be restricted to a name
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"evenkeel-zonal-shift"},
				Verbs: []string{"get", "update"}},
		}},
		&rbacv1.RoleBinding{ObjectMeta: inSystem, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role",
			Name: name}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name},
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list"}}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}},
	} {
		if err := plane.Client.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	return plane.KubeconfigAs(t, name, "system:authenticated")
}

// A loop makes the calls of Cluster Autoscaler's loop.
type loop struct {
	provider *externalgrpc.Client
	expander expander.Chooser
}

func newLoop(t *testing.T, side *evenkeel.Sidecar) *loop {
	t.Helper()
	dial := func(address string, c credentials.TransportCredentials) *grpc.ClientConn {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(c))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	secure, err := credentials.NewClientTLSFromFile(side.CA, "")
	if err != nil {
		t.Fatal(err)
	}
	return &loop{provider: externalgrpc.NewClient(dial(side.Address, insecure.NewCredentials())),
		expander: grpcexpander.NewClient(dial(side.Expander, secure))}
}

// look is a loop in which nothing is pending.
func (l *loop) look(ctx context.Context) error {
	if err := l.provider.Refresh(ctx); err != nil {
		return err
	}
	_, err := l.provider.NodeGroups(ctx)
	return err
}

// sizes are the target sizes of the groups by name.
func (l *loop) sizes(ctx context.Context, t *testing.T) []int {
	t.Helper()
	groups, err := l.provider.NodeGroups(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, g := range groups {
		size, err := l.provider.TargetSize(ctx, g.ID)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, size)
	}
	return out
}

// grow asks for nodes, a pod for each, loop after loop as long as there is an answer, and returns the
// sizes.
func (l *loop) grow(ctx context.Context, t *testing.T, nodes int) []int {
	t.Helper()
	total := func() (sum int) {
		for _, size := range l.sizes(ctx, t) {
			sum += size
		}
		return sum
	}
	if err := l.look(ctx); err != nil {
		t.Fatal(err)
	}
	for end := total() + nodes; total() < end; {
		if err := l.look(ctx); err != nil {
			t.Fatal(err)
		}
		need := end - total()
		chosen, err := l.expander.BestOptions(ctx, l.question(ctx, t, need))
		if err != nil {
			t.Fatal(err)
		}
		if len(chosen) == 0 {
			t.Fatalf("no group is chosen for %d nodes more than %v", need, l.sizes(ctx, t))
		}
		if err := l.provider.IncreaseSize(ctx, chosen[0], need); err != nil {
			t.Fatal(err)
		}
	}
	return l.sizes(ctx, t)
}

// question asks which group gets nodes for so many pods, one on each.
func (l *loop) question(ctx context.Context, t *testing.T, nodes int) expander.Question {
	t.Helper()
	request := expander.Question{Nodes: map[string]*v1.Node{}}
	var pods []int
	for i := range nodes {
		pods = append(pods, i)
		request.Pods = append(request.Pods, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("p-%d", i), UID: "u"}})
	}
	groups, err := l.provider.NodeGroups(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		template, err := l.provider.Template(ctx, g.ID)
		if err != nil {
			t.Fatal(err)
		}
		request.Nodes[g.ID] = template.Node
		request.Options = append(request.Options, expander.Offer{Group: g.ID, NodeCount: nodes, Pods: pods})
	}
	return request
}

// shiftedZone is the zone that the status of the sidecar shows as shifted away, and why.
func shiftedZone(ctx context.Context, t *testing.T, side *evenkeel.Sidecar) string {
	t.Helper()
	code, text := scrape(ctx, t, "http://"+side.Metrics+"/status?format=json", "", &tls.Config{})
	var status struct {
		ZonalShift struct {
			Shifted []struct{ Name, Reason string }
		}
	}
	if err := json.Unmarshal([]byte(text), &status); err != nil || code != http.StatusOK {
		t.Fatalf("status %d: %v\n%s", code, err, text)
	}
	var out []string
	for _, s := range status.ZonalShift.Shifted {
		out = append(out, s.Name+": "+s.Reason)
	}
	return strings.Join(out, ", ")
}

// metricOf is what follows a name in the metrics of the sidecar.
func metricOf(ctx context.Context, t *testing.T, side *evenkeel.Sidecar, name string) string {
	t.Helper()
	_, text := scrape(ctx, t, "http://"+side.Metrics+"/metrics", "", &tls.Config{})
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name+"{"); ok {
			return "{" + strings.TrimSpace(rest)
		}
	}
	return ""
}

// hasEvent reports whether there is an event with a reason, and a word in its message.
func hasEvent(ctx context.Context, plane *controlplane.ControlPlane, reason, word string) bool {
	events := &v1.EventList{}
	return plane.Client.List(ctx, events) == nil && slices.ContainsFunc(events.Items, func(e v1.Event) bool {
		return e.Reason == reason && strings.Contains(e.Message, word)
	})
}
