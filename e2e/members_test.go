package e2e

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
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
var soon = []string{"--member-probe-interval=300ms", "--member-probe-timeout=2s", "--member-offline-after=" + offlineAfter.String(), "--member-stabilization-time=3s"}

// newFleetOfClusters starts it. No member has joined.
func newFleetOfClusters(ctx context.Context, t *testing.T, args ...string) *fleetOfClusters {
	t.Helper()
	o := controlplane.Options{Audit: true, Args: map[controlplane.Program][]string{controlplane.ControllerManager: {
		// Kwok does not make pods ready again whose node was late for a moment, as kubelets do.
		"--node-monitor-grace-period=1h", "--horizontal-pod-autoscaler-sync-period=2s",
	}}}
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
	f.client = balancerClient(ctx, t, f.host)
	apply(ctx, t, f.host, "../controller/rbac")
	for _, o := range read(t, "../controller/deploy") {
		if o.GetKind() == "ClusterRoleBinding" && strings.HasPrefix(o.GetName(), "evenkeel-controller") {
			if err := f.client.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
				t.Fatal(err)
			}
		}
	}
	return f
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

// The life of members, on real API servers.
func TestMemberClusters(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	f := newFleetOfClusters(ctx, t, "-v=9")
	var secrets []string
	for _, step := range []struct {
		name string
		run  func(context.Context, *testing.T, *fleetOfClusters)
	}{
		{"invalid members are refused with the field", invalidMembers},
		{"joining", joinsClusters},
		{"the role in a member is least", leastRole},
		{"joining twice", refusedJoins},
		{"credentials that cannot be used", unusableCredentials},
		{"credentials are rotated without a restart", rotatedCredentials},
		{"an API server is killed for a short time", shortLoss},
		{"an API server is killed for a long time", longLoss},
		{"an API server hangs", hangs},
		{"the controller is restarted while a member is lost", restartedWhileLost},
		{"nothing is written while nothing changes", quietMembers},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(ctx, t, f) }) {
			t.FailNow() // the next ones go on from here
		}
		for name := range f.members {
			if step.name != "invalid members are refused with the field" {
				secrets = append(secrets, f.token(ctx, t, name), strings.TrimPrefix(f.members[name].Config.Host, "https://"))
			}
		}
	}
	t.Run("a ClusterProfile is a member", func(t *testing.T) { profileJoins(ctx, t, f) })
	t.Run("the page about members", func(t *testing.T) { documentedMembers(ctx, t, f) })
	t.Run("nothing of a Secret is shown", func(t *testing.T) { nothingShown(ctx, t, f, secrets) })
	t.Run("objects that are scaled at the same time share known room", func(t *testing.T) { sharesKnownRoom(ctx, t, f) })
	t.Run("a member is drained", func(t *testing.T) { drainsMember(ctx, t, f) })
	t.Run("leaving", func(t *testing.T) { leavesClusters(ctx, t, f) })
}

func invalidMembers(ctx context.Context, t *testing.T, f *fleetOfClusters) {
	for name, test := range map[string]struct {
		name   string
		change func(*v1alpha1.MemberClusterSpec)
		want   string
	}{
		"no secret": {"a", func(s *v1alpha1.MemberClusterSpec) { *s = v1alpha1.MemberClusterSpec{} }, "must have exactly one of kubeconfigSecretRef and clusterProfileRef"},
		"two references": {"a", func(s *v1alpha1.MemberClusterSpec) {
			s.ClusterProfileRef = &v1alpha1.ClusterProfileReference{Name: "a"}
		}, "must have exactly one of kubeconfigSecretRef and clusterProfileRef"},
		"a wrong secret": {"a", func(s *v1alpha1.MemberClusterSpec) { s.KubeconfigSecretRef.Name = "A_b" }, "spec.kubeconfigSecretRef.name"},
		"a wrong key":    {"a", func(s *v1alpha1.MemberClusterSpec) { s.KubeconfigSecretRef.Key = "a/b" }, "spec.kubeconfigSecretRef.key"},
		"a long name":    {strings.Repeat("a", 64), func(*v1alpha1.MemberClusterSpec) {}, "must be at most 63 characters"},
		"an unknown effect": {
			"a", func(s *v1alpha1.MemberClusterSpec) { s.Taints = []v1alpha1.ClusterTaint{{Key: "k", Effect: "Maybe"}} },
			"spec.taints[0].effect",
		},
		"a wrong key of a taint": {
			"a", func(s *v1alpha1.MemberClusterSpec) {
				s.Taints = []v1alpha1.ClusterTaint{{Key: "a b", Effect: v1.TaintEffectNoSchedule}}
			}, "spec.taints[0].key",
		},
		"a taint twice": {
			"a", func(s *v1alpha1.MemberClusterSpec) {
				s.Taints = []v1alpha1.ClusterTaint{{Key: "k", Effect: v1.TaintEffectNoSchedule}, {Key: "k", Effect: v1.TaintEffectNoSchedule}}
			}, "spec.taints[1]",
		},
	} {
		m := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: test.name}}
		m.Spec.KubeconfigSecretRef.Name = "member-a"
		test.change(&m.Spec)
		if err := f.client.Create(ctx, m); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
}

// One command joins a cluster, and says what it did.
func joinsClusters(ctx context.Context, t *testing.T, f *fleetOfClusters) {
	_, says := f.run(t, 0, "cluster", "list")
	if says != "No cluster has joined.\n" {
		t.Errorf("without members: %q", says)
	}
	for _, name := range []string{"amsterdam", "berlin", "cork"} {
		out := f.join(t, name, "--region=eu", "--zone=eu-"+name)
		for _, want := range []string{
			"member: namespace/evenkeel-system created", "member: serviceaccount/evenkeel-member created", "member: clusterrole/evenkeel-member created",
			"member: clusterrolebinding/evenkeel-member created", "member: 20 rights of serviceaccount/evenkeel-member verified",
			"host: secret/member-" + name + " created", "host: membercluster/" + name + " created", "member: token, which expires on ", "membercluster/" + name + " joined",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("join %s does not say %q:\n%s", name, want, out)
			}
		}
		m := f.becomes(ctx, t, name, v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
		if m.Status.Version != "v1.36.3" || m.Labels[v1.LabelTopologyRegion] != "eu" || m.Labels[v1.LabelTopologyZone] != "eu-"+name || m.Status.LastProbeTime == nil {
			t.Errorf("%+v %+v", m.Labels, m.Status)
		}
	}
	out, _ := f.run(t, 0, "cluster", "list", "--no-headers")
	for line, name := range map[int]string{0: "amsterdam", 1: "berlin", 2: "cork"} {
		if fields := strings.Fields(strings.Split(out, "\n")[line]); !slices.Equal(fields[:5], []string{name, "True", "Ready", "v1.36.3", "eu"}) {
			t.Errorf("list:\n%s", out)
		}
	}
	if out, _ = f.run(t, 0, "cluster", "list", "-o", "wide", "-l", v1.LabelTopologyZone+"=eu-cork"); strings.Count(out, "\n") != 2 || !strings.Contains(out, "eu-cork") || !strings.Contains(out, "Accepted") {
		t.Errorf("list -o wide:\n%s", out)
	}
	if out, _ = f.run(t, 0, "cluster", "list", "-o", "yaml"); !strings.HasPrefix(out, "kind: MemberClusterList\napiVersion: evenkeel.dev/v1alpha1\n") || strings.Count(out, "kind: MemberCluster\n") != 3 {
		t.Errorf("list -o yaml:\n%s", out)
	}
	k := newKubectl(t, f.host, f.client, metav1.NamespaceDefault)
	lines, err := k.run(ctx, "kubectl get mc cork -o wide")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(lines[0]), " "); got != "NAME REACHABLE REASON VERSION REGION ZONE TAINTS MESSAGE AGE" {
		t.Errorf("kubectl get: %s", got)
	}
}

// The controllers may do what Rules say in a member, and nothing else that the API server serves.
func leastRole(ctx context.Context, t *testing.T, f *fleetOfClusters) {
	c := f.as(ctx, t, "cork")
	discover, err := discovery.NewDiscoveryClientForConfig(f.members["cork"].Config)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := discover.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	var allowed []string
	for _, list := range lists {
		group, _, found := strings.Cut(list.GroupVersion, "/")
		if !found {
			group = ""
		}
		for _, r := range list.APIResources {
			for _, verb := range append(r.Verbs, "bind", "escalate", "impersonate") {
				resource, sub, _ := strings.Cut(r.Name, "/")
				review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
					Group: group, Resource: resource, Subresource: sub, Verb: verb,
				}}}
				if err := c.Create(ctx, review); err != nil {
					t.Fatal(err)
				}
				if review.Status.Allowed {
					allowed = append(allowed, strings.TrimPrefix(group+"/"+r.Name+" "+verb, "/"))
				}
			}
		}
	}
	var want []string
	for resource, verbs := range map[string]string{
		"apps/deployments": "create delete get list patch update watch", "apps/replicasets": "create delete get list patch update watch",
		"pods": "get list watch", "events.k8s.io/events": "create patch",
		// What every user may do: ask who they are, and what they may.
		"authentication.k8s.io/selfsubjectreviews": "create", "authorization.k8s.io/selfsubjectaccessreviews": "create", "authorization.k8s.io/selfsubjectrulesreviews": "create",
	} {
		for verb := range strings.FieldsSeq(verbs) {
			want = append(want, resource+" "+verb)
		}
	}
	slices.Sort(allowed)
	slices.Sort(want)
	if allowed = slices.Compact(allowed); !slices.Equal(allowed, want) {
		t.Errorf("allowed:\n%s\nwant:\n%s", strings.Join(allowed, "\n"), strings.Join(want, "\n"))
	}
	for what, err := range map[string]error{
		"a secret":          c.List(ctx, &v1.SecretList{}, client.InNamespace("evenkeel-system")),
		"another namespace": c.Get(ctx, client.ObjectKey{Name: "default"}, &v1.Namespace{}),
		"its own role":      c.Get(ctx, client.ObjectKey{Name: "evenkeel-member"}, &rbacv1.ClusterRole{}),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("reading %s: %v", what, err)
		}
	}
	if err := c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &v1.Namespace{}); err != nil {
		t.Error(err)
	}
}

// What cannot join is refused before anything is changed.
func refusedJoins(ctx context.Context, t *testing.T, f *fleetOfClusters) {
	mark := func(p *controlplane.ControlPlane) controlplane.Mark {
		m, err := p.Mark()
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	host, member := mark(f.host), mark(f.members["berlin"])
	for want, args := range map[string][]string{
		"it has joined already, as berlin": {"twin", "--member-kubeconfig=" + f.members["berlin"].Kubeconfig},
		"amsterdam is another cluster":     {"amsterdam", "--member-kubeconfig=" + f.members["berlin"].Kubeconfig},
		"lead to the same cluster":         {"self", "--member-kubeconfig=" + f.host.Kubeconfig},
		"no member given":                  {"nobody"},
		"invalid name":                     {"No_Name", "--member-kubeconfig=x"},
		"invalid --server":                 {"paris", "--member-kubeconfig=x", "--server=paris.example.com"},
		"invalid --token-lifetime":         {"paris", "--member-kubeconfig=x", "--token-lifetime=1m"},
		"invalid label":                    {"paris", "--member-kubeconfig=x", "--region=a b"},
		"--kubeconfig=nowhere":             {"paris", "--member-kubeconfig=nowhere"},
	} {
		if out, says := f.run(t, 2, append([]string{"cluster", "join"}, args...)...); out != "" || !strings.Contains(says, want) || strings.Count(says, "\n") > 2 {
			t.Errorf("%v: %s%s, want %q", args, out, says, want)
		}
	}
	for plane, since := range map[*controlplane.ControlPlane]controlplane.Mark{f.host: host, f.members["berlin"]: member} {
		writes, err := plane.Writes("admin", since)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range writes {
			if w.Resource == "secrets" || w.Resource == "memberclusters" || w.Resource == "clusterroles" || w.Resource == "serviceaccounts" && w.Name == "evenkeel-member" {
				t.Errorf("written: %+v", w)
			}
		}
	}
}

// Each problem becomes a condition that says what to do, and no other cluster is touched.
func unusableCredentials(ctx context.Context, t *testing.T, f *fleetOfClusters) {
	before := f.becomes(ctx, t, "berlin", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
	marker := filepath.Join(t.TempDir(), "ran")
	good, err := os.ReadFile(f.members["berlin"].Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.ReadFile(f.host.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	changed := func(change func(*clientcmdapi.Config, *clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) []byte {
		config, err := clientcmd.Load(good)
		if err != nil {
			t.Fatal(err)
		}
		change(config, config.Clusters["e2e"], config.AuthInfos["e2e"])
		out, err := clientcmd.Write(*config)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for reason, kubeconfig := range map[string][]byte{
		v1alpha1.ReasonPointsToHost:      host,
		v1alpha1.ReasonAlreadyJoined:     good,
		v1alpha1.ReasonInvalidKubeconfig: []byte("apiVersion: v1\nkind: Config\nusers: top-s3cret\n"),
		v1alpha1.ReasonUnauthorized: changed(func(_ *clientcmdapi.Config, _ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.Token = "top-s3cret"
		}),
		v1alpha1.ReasonFileRefused: changed(func(_ *clientcmdapi.Config, _ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.TokenFile = "/etc/top-s3cret"
		}),
		v1alpha1.ReasonPluginRefused: changed(func(_ *clientcmdapi.Config, _ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.Exec = &clientcmdapi.ExecConfig{APIVersion: "client.authentication.k8s.io/v1", Command: "touch", Args: []string{marker}, InteractiveMode: clientcmdapi.NeverExecInteractiveMode}
		}),
		v1alpha1.ReasonSecretNotFound: nil,
	} {
		name := strings.ToLower(reason)
		m := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		m.Spec.KubeconfigSecretRef.Name = name
		secret := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "evenkeel-system", Name: name}, Data: map[string][]byte{"kubeconfig": kubeconfig}}
		if kubeconfig == nil {
			secret.Data = map[string][]byte{"other": good}
		}
		for _, o := range []client.Object{secret, m} {
			if err := f.client.Create(ctx, o); err != nil {
				t.Fatal(err)
			}
		}
		f.becomes(ctx, t, name, v1alpha1.ReasonNoCredentials, reason)
		for _, o := range []client.Object{m, secret} {
			if err := f.client.Delete(ctx, o); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("the command of a kubeconfig was run")
	}
	after := f.becomes(ctx, t, "berlin", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
	if before.ResourceVersion != after.ResourceVersion {
		t.Errorf("another cluster was touched: %+v", after.Status)
	}
}

// Joining again makes new credentials, and ends the old ones. The cluster stays reachable.
func rotatedCredentials(ctx context.Context, t *testing.T, f *fleetOfClusters) {
	before := f.becomes(ctx, t, "berlin", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
	old := f.as(ctx, t, "berlin")
	token := f.token(ctx, t, "berlin")
	pid := f.controller.PID()
	out := f.join(t, "berlin")
	for _, want := range []string{"serviceaccount/evenkeel-member unchanged", "clusterrole/evenkeel-member unchanged", "secret/member-berlin updated", "membercluster/berlin unchanged", "and its token deleted"} {
		if !strings.Contains(out, want) {
			t.Errorf("joining again does not say %q:\n%s", want, out)
		}
	}
	if f.token(ctx, t, "berlin") == token {
		t.Error("the token is the same")
	}
	until(ctx, t, "the old credentials are refused", func() bool { return apierrors.IsUnauthorized(old.List(ctx, &appsv1.ReplicaSetList{})) })
	f.becomes(ctx, t, "berlin", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
	// It is read with the new credentials: what is created now is seen.
	if f.controller.PID() != pid {
		t.Error("the controller was restarted")
	}
	after := f.becomes(ctx, t, "berlin", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
	if was, is := reachableSince(before), reachableSince(after); is.Sub(was) > time.Minute {
		t.Errorf("it was not reachable in between: since %s, before since %s", is, was)
	}
}

func reachableSince(m *v1alpha1.MemberCluster) time.Time {
	return meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReachable).LastTransitionTime.Time
}

func shortLoss(ctx context.Context, t *testing.T, f *fleetOfClusters) {
	for range 3 {
		before := f.events(ctx, t, "cork", "ClusterLost")
		if short := f.restart(ctx, t, "cork"); !short {
			continue
		}
		if lost := f.events(ctx, t, "cork", "ClusterLost") - before; lost != 0 {
			t.Errorf("%d events of a loss", lost)
		}
		return
	}
	t.Skip("the API server takes too long to start for a short loss")
}

// restart kills the API server of a member, starts it when it is missed, and waits until the member
// is ready again. It reports whether that took less time than after which a member counts as lost:
// it may take more on a busy machine.
func (f *fleetOfClusters) restart(ctx context.Context, t *testing.T, name string) (short bool) {
	t.Helper()
	began := time.Now()
	f.members[name].Kill(controlplane.APIServer)
	f.becomes(ctx, t, name, v1alpha1.ReasonNotAnswering, v1alpha1.ReasonAccepted)
	if err := f.members[name].Launch(ctx, controlplane.APIServer); err != nil {
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

func longLoss(ctx context.Context, t *testing.T, f *fleetOfClusters) {
	f.members["cork"].Kill(controlplane.APIServer)
	m := f.becomes(ctx, t, "cork", v1alpha1.ReasonOffline, v1alpha1.ReasonAccepted)
	c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReachable)
	if c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "connection") {
		t.Errorf("%+v", c)
	}
	if err := f.members["cork"].Launch(ctx, controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
	f.becomes(ctx, t, "cork", v1alpha1.ReasonStabilizing, v1alpha1.ReasonAccepted)
	f.becomes(ctx, t, "cork", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
	until(ctx, t, "events say so", func() bool {
		return f.events(ctx, t, "cork", "ClusterLost") == 1 && f.events(ctx, t, "cork", "ClusterBack") == 1
	})
}

// It accepts connections and never answers. The others are not affected.
func hangs(ctx context.Context, t *testing.T, f *fleetOfClusters) {
	others := f.becomes(ctx, t, "berlin", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
	if err := f.members["amsterdam"].Pause(controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
	resume := func() {
		if err := f.members["amsterdam"].Resume(controlplane.APIServer); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(resume)
	m := f.becomes(ctx, t, "amsterdam", v1alpha1.ReasonOffline, v1alpha1.ReasonAccepted)
	if c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReachable); !strings.Contains(c.Message, "did not answer in time") {
		t.Errorf("%+v", c)
	}
	// Another cluster gets new credentials meanwhile.
	f.join(t, "berlin")
	if now := f.becomes(ctx, t, "berlin", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted); reachableSince(now).Sub(reachableSince(others)) > 2*time.Minute {
		t.Errorf("%+v", now.Status)
	}
	resume()
	f.becomes(ctx, t, "amsterdam", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
}

func restartedWhileLost(ctx context.Context, t *testing.T, f *fleetOfClusters) {
	f.members["cork"].Kill(controlplane.APIServer)
	f.becomes(ctx, t, "cork", v1alpha1.ReasonOffline, v1alpha1.ReasonAccepted)
	if err := f.controller.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := f.members["cork"].Launch(ctx, controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
	if err := f.controller.Start(); err != nil {
		t.Fatal(err)
	}
	f.becomes(ctx, t, "cork", v1alpha1.ReasonStabilizing, v1alpha1.ReasonAccepted)
	f.becomes(ctx, t, "cork", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
}

func quietMembers(ctx context.Context, t *testing.T, f *fleetOfClusters) {
	for name := range f.members {
		f.becomes(ctx, t, name, v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
	}
	planes := map[*controlplane.ControlPlane]controlplane.Mark{}
	for _, p := range append([]*controlplane.ControlPlane{f.host}, f.members["amsterdam"], f.members["berlin"], f.members["cork"]) {
		mark, err := p.Mark()
		if err != nil {
			t.Fatal(err)
		}
		planes[p] = mark
	}
	quiet, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	<-quiet.Done()
	for plane, since := range planes {
		for _, user := range []string{controllerAccount, "system:serviceaccount:evenkeel-system:evenkeel-member"} {
			writes, err := plane.Writes(user, since)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range writes {
				if w.Resource != "leases" {
					t.Errorf("%s wrote %+v", user, w)
				}
			}
		}
	}
}

// A ClusterProfile becomes a member without a command, with the token of a Secret, and leaves with the
// ClusterProfile. The kind is installed while the controller runs.
func profileJoins(ctx context.Context, t *testing.T, f *fleetOfClusters) {
	token := f.token(ctx, t, "amsterdam")
	access := f.kubeconfig(ctx, t, "amsterdam").Clusters["amsterdam"]
	var m v1alpha1.MemberCluster
	if err := f.client.Get(ctx, client.ObjectKey{Name: "amsterdam"}, &m); err != nil {
		t.Fatal(err)
	}
	if err := f.client.Delete(ctx, &m); err != nil { // its account stays, for the ClusterProfile
		t.Fatal(err)
	}
	for _, o := range []*unstructured.Unstructured{clusterProfileKind(), clusterProfile("dublin", access)} {
		until(ctx, t, o.GetKind()+" is there", func() bool { return client.IgnoreAlreadyExists(f.client.Create(ctx, o)) == nil })
	}
	if err := f.controller.Stop(); err != nil { // it would notice within a minute
		t.Fatal(err)
	}
	if err := f.controller.Start(); err != nil {
		t.Fatal(err)
	}
	f.becomesAny(ctx, t, "dublin")
	got := f.becomes(ctx, t, "dublin", v1alpha1.ReasonNoCredentials, v1alpha1.ReasonSecretNotFound)
	if got.Labels[v1.LabelTopologyRegion] != "ie" || got.Labels[v1alpha1.LabelClusterProfile] != "dublin" {
		t.Errorf("labels %v", got.Labels)
	}
	secret := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "evenkeel-system", Name: "dublin"}, Data: map[string][]byte{"token": []byte(token)}}
	if err := f.client.Create(ctx, secret); err != nil {
		t.Fatal(err)
	}
	f.becomes(ctx, t, "dublin", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
	for _, o := range []client.Object{clusterProfile("dublin", access), secret} {
		if err := f.client.Delete(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	until(ctx, t, "it has left", func() bool { return apierrors.IsNotFound(f.client.Get(ctx, client.ObjectKey{Name: "dublin"}, &m)) })
	f.join(t, "amsterdam")
	f.becomes(ctx, t, "amsterdam", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
}

// becomesAny waits until there is a MemberCluster.
func (f *fleetOfClusters) becomesAny(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	until(ctx, t, name+" is a member", func() bool { return f.client.Get(ctx, client.ObjectKey{Name: name}, &v1alpha1.MemberCluster{}) == nil })
}

// clusterProfileKind defines the kind as far as it matters.
func clusterProfileKind() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "clusterprofiles.multicluster.x-k8s.io", "annotations": map[string]any{"api-approved.kubernetes.io": "unapproved, for a test"}},
		"spec": map[string]any{
			"group": "multicluster.x-k8s.io", "scope": "Namespaced",
			"names": map[string]any{"kind": "ClusterProfile", "plural": "clusterprofiles"},
			"versions": []any{map[string]any{
				"name": "v1alpha1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
}

func clusterProfile(name string, access *clientcmdapi.Cluster) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile",
		"metadata": map[string]any{"namespace": "evenkeel-system", "name": name, "labels": map[string]any{v1.LabelTopologyRegion: "ie"}},
		"spec":     map[string]any{"clusterManager": map[string]any{"name": "test"}},
		"status": map[string]any{"accessProviders": []any{
			map[string]any{"name": "runs-a-command", "cluster": map[string]any{"server": "https://127.0.0.1:1"}},
			map[string]any{"name": "secretreader", "cluster": map[string]any{
				"server": access.Server, "certificate-authority-data": base64.StdEncoding.EncodeToString(access.CertificateAuthorityData),
			}},
		}},
	}}
}

// The commands of the page about members, as they stand there.
func documentedMembers(ctx context.Context, t *testing.T, f *fleetOfClusters) {
	k := newKubectl(t, f.host, f.client, metav1.NamespaceDefault)
	paris, err := os.ReadFile(f.members["cork"].Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, ".kube"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, ".kube", "paris"), paris, 0o600); err != nil {
		t.Fatal(err)
	}
	k.environment = append(k.environment, "HOME="+home, "PATH="+evenkeel.Folder(t)+":"+filepath.Dir(f.host.Kubectl)+":"+os.Getenv("PATH"))
	f.run(t, 0, "cluster", "leave", "cork", "--member-kubeconfig="+f.members["cork"].Kubeconfig)
	page := "../docs/member-clusters.md"
	for _, lines := range [][]string{
		documented(t, page, "evenkeel cluster join paris --member-kubeconfig ~/.kube/paris --region "), documented(t, page, "kubectl wait "), documented(t, page, "evenkeel cluster list"),
		documented(t, page, "kubectl patch "), documented(t, page, "evenkeel cluster leave paris --member-kubeconfig ~/.kube/paris\n"),
	} {
		if len(lines) != 1 {
			t.Fatalf("the page shows %q", lines)
		}
		out, err := k.run(ctx, lines[0])
		if err != nil {
			t.Fatal(err)
		}
		if list := strings.Join(out, "\n"); strings.HasSuffix(lines[0], "list\n") && !strings.Contains(list, "paris") {
			t.Errorf("%s", list)
		}
	}
	f.join(t, "cork")
	f.becomes(ctx, t, "cork", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
}

// Neither tokens nor addresses of members are in a log, a metric, a status or an event, even where all
// is logged.
func nothingShown(ctx context.Context, t *testing.T, f *fleetOfClusters, secrets []string) {
	texts := f.shown(ctx, t)
	if !strings.Contains(texts["the metrics"], `evenkeel_member_state{cluster="cork",state="Ready"} 1`) {
		t.Errorf("the metrics do not show the state of a member")
	}
	if len(secrets) < 20 || len(texts["the log"]) < 1000 || len(texts["the events"]) < 1000 {
		t.Fatalf("there is nothing to look for or in: %d secrets, a log of %d bytes, events of %d", len(secrets), len(texts["the log"]), len(texts["the events"]))
	}
	noneIn(t, texts, append(secrets, "top-s3cret"))
}

// shown is all that the controllers show.
func (f *fleetOfClusters) shown(ctx context.Context, t *testing.T) map[string]string {
	t.Helper()
	log, err := os.ReadFile(f.controller.Log)
	if err != nil {
		t.Fatal(err)
	}
	code, metrics := scrape(ctx, t, "http://"+f.controller.Address+"/metrics", "", nil)
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, metrics)
	}
	texts := map[string]string{"the log": string(log), "the metrics": metrics}
	for name, list := range map[string]client.ObjectList{
		"the statuses of members": &v1alpha1.MemberClusterList{}, "the statuses of objects": &v1alpha1.FederatedReplicaSetList{}, "the events": &eventsv1.EventList{},
	} {
		if err := f.client.List(ctx, list); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
	}
	return texts
}

// noneIn expects that no secret is in the texts: neither as it is nor as a Secret has it, nor as bytes
// are logged.
func noneIn(t *testing.T, texts map[string]string, secrets []string) {
	t.Helper()
	for where, text := range texts {
		for _, secret := range secrets {
			for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret)), hex.EncodeToString([]byte(secret))} {
				if at := strings.Index(text, form); at >= 0 {
					t.Errorf("%s: a secret is in it: %s", where, text[max(0, at-200):min(len(text), at+100)])
				}
			}
		}
		if at := strings.Index(text, "Response Body"); at >= 0 {
			t.Errorf("%s: what was received is in it: %s", where, text[at:min(len(text), at+200)])
		}
	}
}

// Leaving takes back what joining made. What runs in the member stays.
func leavesClusters(ctx context.Context, t *testing.T, f *fleetOfClusters) {
	cork := f.members["cork"].Client
	d := emptyDeployment(metav1.NamespaceDefault, "web")
	d.Labels = map[string]string{v1alpha1.LabelFederated: "true"}
	if err := cork.Create(ctx, d); err != nil {
		t.Fatal(err)
	}
	if _, says := f.run(t, 2, "cluster", "leave", "cork", "--member-kubeconfig="+f.members["berlin"].Kubeconfig); !strings.Contains(says, "another cluster than cork") {
		t.Errorf("another cluster: %s", says)
	}
	if _, says := f.run(t, 2, "cluster", "leave", "nobody"); !strings.Contains(says, "there is no MemberCluster nobody") {
		t.Errorf("no member: %s", says)
	}
	credentials := f.as(ctx, t, "cork")
	out, _ := f.run(t, 0, "cluster", "leave", "cork", "--member-kubeconfig="+f.members["cork"].Kubeconfig)
	for _, want := range []string{
		"host: membercluster/cork deleted", "host: secret/member-cork deleted", "member: clusterrolebinding/evenkeel-member deleted",
		"member: clusterrole/evenkeel-member deleted", "and its token deleted", "member: serviceaccount/evenkeel-member deleted", "member: namespace/evenkeel-system kept", "membercluster/cork left",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("leave does not say %q:\n%s", want, out)
		}
	}
	until(ctx, t, "the credentials are refused", func() bool { return apierrors.IsUnauthorized(credentials.List(ctx, &appsv1.ReplicaSetList{})) })
	if err := cork.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
		t.Errorf("what ran there: %v", err)
	}
	if _, says := f.run(t, 0, "cluster", "leave", "berlin"); !strings.Contains(says, "the account of the controllers in the member stays") {
		t.Errorf("without the member: %s", says)
	}
	// It can join again.
	f.join(t, "cork")
	f.becomes(ctx, t, "cork", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
}
