package e2e

import (
	"context"
	"crypto/tls"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
	"github.com/evenkeel/evenkeel/e2e/evenkeel"
	"github.com/evenkeel/evenkeel/expander/grpcexpander"
)

// Each right that the chart grants to a component is used, and nothing else is asked for: the audit log of an API server has the
// calls of a process with these rights, which does all that it can do.
func TestChartGrantsWhatIsCalled(t *testing.T) {
	t.Parallel()
	t.Run("controllers", func(t *testing.T) {
		t.Parallel()
		playRights(t, component{namespace: "evenkeel-system", account: "evenkeel-controller", values: "{}", onlyWhere: map[right]string{
			{verb: "get", resource: "workloadspreads.evenkeel.dev"}: "a status that another replica has written meanwhile",
			{verb: "patch", resource: "events.events.k8s.io"}:       "an event that is recorded again about the same version of an object",
		}}, playControllers)
	})
	t.Run("expander", func(t *testing.T) {
		t.Parallel()
		playRights(t, component{namespace: metav1.NamespaceSystem, account: "evenkeel-expander", values: `
controller: {enabled: false}
crds: {install: false}
expander: {enabled: true, countNodes: true}`}, playExpander)
	})
	t.Run("sidecar", func(t *testing.T) {
		t.Parallel()
		playRights(t, component{namespace: metav1.NamespaceSystem, account: "cluster-autoscaler", values: `
controller: {enabled: false}
crds: {install: false}
sidecar: {enabled: true, podConditions: true, backend: {address: "provider:8086"}, autoscaler: {enabled: false}}`}, playSidecar)
	})
}

// A component is a part of evenkeel that the chart installs with these values, and the account with its rights.
type component struct {
	namespace, account, values string
	// onlyWhere are rights that it needs where something unusual happens, which is a matter of chance here, and what that is.
	onlyWhere map[right]string
}

// playRights installs the chart, plays what a component does with its rights, and compares.
func playRights(t *testing.T, of component, play func(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane, kubeconfig string) (step func())) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	// Where an API server does not send lists as watches, as those before 1.34, clients list.
	plane := controlplane.Start(t, controlplane.Options{AuditReads: true,
		Args: map[controlplane.Program][]string{controlplane.APIServer: {"--feature-gates=WatchList=false"}}})
	h := newHelm(t, plane)
	h.namespace = of.namespace
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(of.values), 0o600); err != nil {
		t.Fatal(err)
	}
	h.run(ctx, t, "install", release, charts+"/evenkeel", "--values="+file, "--create-namespace")
	user := "system:serviceaccount:" + of.namespace + ":" + of.account
	granted := grantedTo(t, h.manifest(ctx, t), of.account)
	step := play(ctx, t, plane, plane.KubeconfigAs(t, user, "system:serviceaccounts", "system:authenticated"))
	within := settledWithin
	if step == nil { // all is done, but perhaps not yet written down
		step, within = func() {}, 10*time.Second
	}
	var unused []right
	_ = wait.PollUntilContextTimeout(ctx, pollInterval, within, true, func(context.Context) (bool, error) {
		step()
		unused = slices.DeleteFunc(slices.Collect(maps.Keys(granted)), func(r right) bool { return of.onlyWhere[r] != "" })
		calls, err := plane.Calls(user, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range calls {
			if c.Resource == "" {
				continue // which kinds there are: everybody may ask
			}
			used := rightOf(c)
			if !granted[used] {
				used.name = ""
			}
			if !granted[used] {
				t.Errorf("it calls, which is not granted: %+v", c)
			}
			unused = slices.DeleteFunc(unused, func(r right) bool { return r == used })
		}
		return t.Failed() || len(unused) == 0, nil
	})
	for _, r := range unused {
		t.Errorf("it is granted and never used: %s %s %s", r.verb, r.resource, r.name)
	}
}

// A right is to do something with objects of a kind, or with one of them.
type right struct{ verb, resource, name string }

func rightOf(c controlplane.Write) right {
	r := right{c.Verb, c.Resource, c.Name}
	if c.Group != "" {
		r.resource += "." + c.Group
	}
	if c.Subresource != "" {
		r.resource += "/" + c.Subresource
	}
	return r
}

// grantedTo are the rights that objects grant to a service account.
func grantedTo(t *testing.T, objects []*unstructured.Unstructured, account string) map[right]bool {
	t.Helper()
	roles := map[string][]rbacv1.PolicyRule{"ClusterRole /system:auth-delegator": { // of Kubernetes
		{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
	}}
	out := map[right]bool{}
	for _, o := range objects {
		var role rbacv1.ClusterRole // a Role has the same fields
		if o.GetKind() == "ClusterRole" || o.GetKind() == "Role" {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
				t.Fatal(err)
			}
			roles[o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()] = role.Rules
		}
	}
	for _, o := range objects {
		if !strings.HasSuffix(o.GetKind(), "RoleBinding") {
			continue
		}
		var binding rbacv1.ClusterRoleBinding
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &binding); err != nil {
			t.Fatal(err)
		}
		if len(binding.Subjects) != 1 || binding.Subjects[0].Name != account {
			continue
		}
		of := ""
		if binding.RoleRef.Kind == "Role" {
			of = o.GetNamespace()
		}
		rules, known := roles[binding.RoleRef.Kind+" "+of+"/"+binding.RoleRef.Name]
		if !known {
			t.Errorf("%s binds %s, which is not there", o.GetName(), binding.RoleRef.Name)
		}
		for _, rule := range rules {
			addRights(out, rule)
		}
	}
	return out
}

func addRights(to map[right]bool, rule rbacv1.PolicyRule) {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				for _, name := range names {
					main, sub, _ := strings.Cut(resource, "/")
					to[rightOf(controlplane.Write{Verb: verb, Group: group, Resource: main, Subresource: sub, Name: name})] = true
				}
			}
		}
	}
}

// playExpander has an expander answer, count nodes, obey zonal shifts, and show its metrics.
func playExpander(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane, kubeconfig string) (step func()) {
	t.Helper()
	cloud, shift := threeZones(t, plane), shifts(ctx, t, plane)
	e := evenkeel.StartExpander(t, evenkeel.ExpanderOptions{Kubeconfig: kubeconfig,
		Args: []string{"--zonal-shift-configmap=evenkeel-zonal-shift", "--count-nodes", "--metrics-secure"}})
	l := &loop{provider: externalgrpc.NewClient(dialed(t, cloud.Address, insecure.NewCredentials())),
		expander: grpcexpander.NewClient(dialed(t, e.Address, trusting(t, e.CA)))}
	scrapedByAStranger(ctx, t, plane, e.Metrics)
	return func() {
		shift()
		if _, err := l.expander.BestOptions(ctx, l.question(ctx, t, 4)); err != nil {
			t.Fatal(err)
		}
	}
}

// playSidecar has a sidecar write its journal, split, say what it does about a pod, obey zonal shifts, and show its metrics.
func playSidecar(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane, kubeconfig string) (step func()) {
	t.Helper()
	cloud, shift := threeZones(t, plane), shifts(ctx, t, plane)
	side := evenkeel.StartSidecar(t, evenkeel.SidecarOptions{Backend: cloud.Address, Kubeconfig: kubeconfig,
		Args: []string{"--zonal-shift-configmap=evenkeel-zonal-shift", "--pod-provisioning-conditions", "--leader-identity=e2e", "--metrics-secure"}})
	lead(ctx, t, plane, "e2e")
	l := newLoop(t, side)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "waits"},
		Spec: v1.PodSpec{NodeSelector: map[string]string{"node": "none"}, Containers: []v1.Container{{Name: "c", Image: "i"}}}}
	if err := plane.Client.Create(ctx, pod); err != nil {
		t.Fatal(err)
	}
	scrapedByAStranger(ctx, t, plane, side.Metrics)
	return func() {
		shift()
		if l.look(ctx) != nil {
			return // it does not lead yet
		}
		q := l.question(ctx, t, 4)
		q.Pods[0] = pod
		chosen, err := l.expander.BestOptions(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		if len(chosen) > 0 {
			if err := l.provider.IncreaseSize(ctx, chosen[0], 4); err != nil {
				t.Logf("an increase: %v", err)
			}
		}
	}
}

// shifts returns what shifts a zone away and returns it, in turn: the second time the event about it is an old one.
func shifts(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane) func() {
	t.Helper()
	user := userOfZones(ctx, t, plane)
	at, shifted := 0, false
	return func() {
		if at++; at%10 != 0 {
			return // it is read at most every second
		}
		args := []string{"zone", "return", "zone-b", "--kubeconfig=" + user}
		if !shifted {
			args = []string{"zone", "shift", "zone-b", "--reason=power failure", "--kubeconfig=" + user}
		}
		if out, problem, code := evenkeel.Run(t, args...); code != 0 {
			t.Fatalf("evenkeel %v: exit code %d: %s%s", args, code, out, problem)
		}
		shifted = !shifted
	}
}

// threeZones serves a cloud with a node in each of three zones.
func threeZones(t *testing.T, plane *controlplane.ControlPlane) *evenkeel.Server {
	t.Helper()
	fleet := trial{groups: zones("m", 20, 1, 1, 1), demands: []demand{{machine: "m", perNode: 1}}}
	return evenkeel.StartFakeCloud(t, plane.Kubeconfig, fleet.write(t))
}

func dialed(t *testing.T, address string, c credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(c))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func trusting(t *testing.T, authority string) credentials.TransportCredentials {
	t.Helper()
	c, err := credentials.NewClientTLSFromFile(authority, "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// scrapedByAStranger asks for metrics with the token of somebody who may not get them.
func scrapedByAStranger(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane, address string) {
	t.Helper()
	code, _ := scrape(ctx, t, "https://"+address+"/metrics", tokenOf(ctx, t, plane.Client, "stranger"), &tls.Config{InsecureSkipVerify: true})
	if code != http.StatusForbidden {
		t.Errorf("a stranger gets %d", code)
	}
}
