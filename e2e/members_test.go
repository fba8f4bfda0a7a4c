package e2e

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
	"github.com/evenkeel/evenkeel/e2e/evenkeel"
)

// The life of members, on real API servers. What their loss means for what runs there is shown by
// TestFederatedReplicaSets.
func TestMemberClusters(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
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
		{"a member is lost, and the controller restarted meanwhile", lostMember},
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
		"no secret": {"a", func(s *v1alpha1.MemberClusterSpec) { *s = v1alpha1.MemberClusterSpec{} },
			"must have exactly one of kubeconfigSecretRef and clusterProfileRef"},
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
			"member: namespace/evenkeel-system created", "member: serviceaccount/evenkeel-member created",
			"member: clusterrole/evenkeel-member created",
			"member: clusterrolebinding/evenkeel-member created", "member: 20 rights of serviceaccount/evenkeel-member verified",
			"host: secret/member-" + name + " created", "host: membercluster/" + name + " created", "member: token, which expires on ",
			"membercluster/" + name + " joined",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("join %s does not say %q:\n%s", name, want, out)
			}
		}
		m := f.becomes(ctx, t, name, v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
		if m.Status.Version != "v1.36.3" || m.Labels[v1.LabelTopologyRegion] != "eu" || m.Labels[v1.LabelTopologyZone] != "eu-"+name ||
			m.Status.LastProbeTime == nil {
			t.Errorf("%+v %+v", m.Labels, m.Status)
		}
	}
	out, _ := f.run(t, 0, "cluster", "list", "--no-headers")
	for line, name := range map[int]string{0: "amsterdam", 1: "berlin", 2: "cork"} {
		if fields := strings.Fields(strings.Split(out, "\n")[line]); !slices.Equal(fields[:5], []string{name, "True", "Ready", "v1.36.3", "eu"}) {
			t.Errorf("list:\n%s", out)
		}
	}
	if out, _ = f.run(t, 0, "cluster", "list", "-o", "wide", "-l", v1.LabelTopologyZone+"=eu-cork"); strings.Count(out, "\n") != 2 ||
		!strings.Contains(out, "eu-cork") || !strings.Contains(out, "Accepted") {
		t.Errorf("list -o wide:\n%s", out)
	}
	if out, _ = f.run(t, 0, "cluster", "list", "-o", "yaml"); !strings.HasPrefix(out,
		"kind: MemberClusterList\napiVersion: evenkeel.dev/v1alpha1\n") || strings.Count(out, "kind: MemberCluster\n") != 3 {
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
		"authentication.k8s.io/selfsubjectreviews": "create", "authorization.k8s.io/selfsubjectaccessreviews": "create",
		"authorization.k8s.io/selfsubjectrulesreviews": "create",
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
		"--member-kubeconfig=nowhere":      {"paris", "--member-kubeconfig=nowhere"},
	} {
		if out, says := f.run(t, 2, append([]string{"cluster", "join"}, args...)...); out != "" || !strings.Contains(says, want) ||
			strings.Count(says, "\n") > 2 {
			t.Errorf("%v: %s%s, want %q", args, out, says, want)
		}
	}
	for plane, since := range map[*controlplane.ControlPlane]controlplane.Mark{f.host: host, f.members["berlin"]: member} {
		writes, err := plane.Writes("admin", since)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range writes {
			if w.Resource == "secrets" || w.Resource == "memberclusters" || w.Resource == "clusterroles" || w.Resource == "serviceaccounts" &&
				w.Name == "evenkeel-member" {
				t.Errorf("written: %+v", w)
			}
		}
	}
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
		documented(t, page, "evenkeel cluster join paris --member-kubeconfig ~/.kube/paris --region "), documented(t, page, "kubectl wait "),
		documented(t, page, "evenkeel cluster list"),
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

// Leaving takes back what joining made. What runs in the member stays.
func leavesClusters(ctx context.Context, t *testing.T, f *fleetOfClusters) {
	cork := f.members["cork"].Client
	d := emptyDeployment(metav1.NamespaceDefault, "web")
	d.Labels = map[string]string{v1alpha1.LabelFederated: "true"}
	if err := cork.Create(ctx, d); err != nil {
		t.Fatal(err)
	}
	if _, says := f.run(t, 2, "cluster", "leave", "cork", "--member-kubeconfig="+f.members["berlin"].Kubeconfig); !strings.Contains(says,
		"another cluster than cork") {
		t.Errorf("another cluster: %s", says)
	}
	if _, says := f.run(t, 2, "cluster", "leave", "nobody"); !strings.Contains(says, "there is no MemberCluster nobody") {
		t.Errorf("no member: %s", says)
	}
	credentials := f.as(ctx, t, "cork")
	out, _ := f.run(t, 0, "cluster", "leave", "cork", "--member-kubeconfig="+f.members["cork"].Kubeconfig)
	for _, want := range []string{
		"host: membercluster/cork deleted", "host: secret/member-cork deleted", "member: clusterrolebinding/evenkeel-member deleted",
		"member: clusterrole/evenkeel-member deleted", "and its token deleted", "member: serviceaccount/evenkeel-member deleted",
		"member: namespace/evenkeel-system kept", "membercluster/cork left",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("leave does not say %q:\n%s", want, out)
		}
	}
	until(ctx, t, "the credentials are refused",
		func() bool { return apierrors.IsUnauthorized(credentials.List(ctx, &appsv1.ReplicaSetList{})) })
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
