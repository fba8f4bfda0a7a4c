package join

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation/members"
)

// paris is a member that is reachable, with web, which runs there with three pods, and other, which
// another host has put there.
func paris(t *testing.T, unplaced int32) *hostAndMember {
	t.Helper()
	web := &v1alpha1.FederatedReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-of-web"}}
	web.Status.Clusters = []v1alpha1.FederatedClusterStatus{{Name: "paris", Written: 3}}
	web.Status.Unplaced = unplaced
	w := newHostAndMember(t, web)
	if _, err := w.join(t, "paris"); err != nil {
		t.Fatal(err)
	}
	m := &v1alpha1.MemberCluster{}
	if err := w.host.Client.Get(t.Context(), client.ObjectKey{Name: "paris"}, m); err != nil {
		t.Fatal(err)
	}
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReachable, Status: metav1.ConditionTrue,
		Reason: v1alpha1.ReasonReady})
	m.Spec.Taints = []v1alpha1.ClusterTaint{{Key: "own", Effect: v1.TaintEffectNoSchedule}}
	w.update(t, w.host.Client, m)
	for _, of := range []string{"web", "other"} {
		labels := map[string]string{"app": of, v1alpha1.LabelFederated: "true"}
		set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: of, Labels: labels, UID: types.UID("local-" + of),
			Annotations: map[string]string{v1alpha1.AnnotationFederatedUID: "uid-of-" + of},
		}}
		set.Spec.Replicas, set.Spec.Selector = new(int32(3)), &metav1.LabelSelector{MatchLabels: map[string]string{"app": of}}
		w.create(t, set)
		for i := range 3 {
			w.create(t, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint(of, i), Labels: labels}})
		}
	}
	return w
}

func (w *hostAndMember) create(t *testing.T, o client.Object) {
	t.Helper()
	if err := w.member.Client.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func (w *hostAndMember) update(t *testing.T, c client.Client, o client.Object) {
	t.Helper()
	if err := c.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// controllers empty a member once it is marked, step by step.
func (w *hostAndMember) controllers(t *testing.T) {
	t.Helper()
	step := func() { time.Sleep(3 * time.Second) } //nolint:forbidigo // virtual
	for !slices.Contains(w.taints(t), v1alpha1.TaintLeaving+":NoExecute") {
		step()
	}
	set := &appsv1.ReplicaSet{}
	if err := w.member.Client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web"}, set); err != nil {
		t.Error(err)
		return
	}
	set.Spec.Replicas = new(int32(0))
	w.update(t, w.member.Client, set)
	f := &v1alpha1.FederatedReplicaSet{}
	if err := w.host.Client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web"}, f); err != nil {
		t.Error(err)
		return
	}
	f.Status.Clusters[0].Written = 0
	w.update(t, w.host.Client, f)
	for i := range 3 {
		step()
		if err := w.member.Client.Delete(t.Context(),
			&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("web", i)}}); err != nil {
			t.Error(err)
		}
	}
}

func (w *hostAndMember) taints(t *testing.T) (out []string) {
	t.Helper()
	m := &v1alpha1.MemberCluster{}
	if err := w.host.Client.Get(t.Context(), client.ObjectKey{Name: "paris"}, m); err != nil {
		t.Fatal(err)
	}
	for _, taint := range m.Spec.Taints {
		out = append(out, taint.Key+":"+string(taint.Effect))
	}
	return out
}

func inMember(t *testing.T, w *hostAndMember) (sets []string) {
	t.Helper()
	var list appsv1.ReplicaSetList
	if err := w.member.Client.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		sets = append(sets, list.Items[i].Name)
	}
	return sets
}

// A member that is drained leaves when nothing of the host runs there any more, and keeps what
// another host has put there.
func TestLeaveDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paris(t, 0)
		var progress []string
		go w.controllers(t)
		steps, err := Leave(t.Context(), w.host, w.member, "paris", LeaveOptions{Drain: true, Progress: func(left []Remaining) {
			progress = append(progress, fmt.Sprint(left))
		}})
		if err != nil {
			t.Fatal(err)
		}
		want := "[[shop/web: 3 pods] [shop/web: 2 pods] [shop/web: 1 pods] []]"
		if got := fmt.Sprint(progress); got != want {
			t.Errorf("progress %s, want %s", got, want)
		}
		text := fmt.Sprint(steps)
		for _, step := range []string{"{host membercluster/paris tainted evenkeel.dev/leaving:NoExecute}", "{host membercluster/paris deleted}",
			"{member replicaset/shop/web deleted}", "{member serviceaccount/evenkeel-member deleted}"} {
			if !strings.Contains(text, step) {
				t.Errorf("no %s in %s", step, text)
			}
		}
		if got := fmt.Sprint(inMember(t, w)); got != "[other]" {
			t.Errorf("the member has %s", got)
		}
	})
}

// A member that is not empty in time stays a member that is marked: the command can be repeated, or
// the mark taken back. What remains is named.
func TestLeaveThatDoesNotDrainInTimeChangesNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paris(t, 2)
		before := objects(t, w.host.Client) + objects(t, w.member.Client)
		for range 2 {
			_, err := Leave(t.Context(), w.host, w.member, "paris", LeaveOptions{Drain: true, Timeout: time.Minute})
			if !errors.Is(err, ErrNotDrained) || !strings.Contains(err.Error(), "left are shop/web: 3 pods (2 have no other cluster)") {
				t.Errorf("%v", err)
			}
		}
		if after := objects(t, w.host.Client) + objects(t, w.member.Client); after != before {
			t.Errorf("%s, before %s", after, before)
		}
		if got := fmt.Sprint(w.taints(t)); got != "[own:NoSchedule evenkeel.dev/leaving:NoExecute]" {
			t.Error(got)
		}
		if _, err := Cordon(t.Context(), w.host, "paris"); err != nil {
			t.Error(err)
		}
		for _, want := range []string{"uncordoned", "unchanged"} {
			if steps, err := Uncordon(t.Context(), w.host, "paris"); err != nil || fmt.Sprint(steps) != "[{host membercluster/paris "+want+"}]" {
				t.Errorf("%v %v", steps, err)
			}
		}
		if got := fmt.Sprint(w.taints(t)); got != "[own:NoSchedule]" {
			t.Error(got)
		}
	})
}

// A member that the controllers do not reach cannot be drained, and nothing is changed.
func TestLeaveRefusesToDrainWhatIsNotReached(t *testing.T) {
	w := paris(t, 0)
	m := &v1alpha1.MemberCluster{}
	if err := w.host.Client.Get(t.Context(), client.ObjectKey{Name: "paris"}, m); err != nil {
		t.Fatal(err)
	}
	if _, err := Leave(t.Context(), w.host, Cluster{}, "paris", LeaveOptions{Drain: true}); !errors.Is(err, ErrUndrainable) {
		t.Errorf("%v", err)
	}
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReachable, Status: metav1.ConditionFalse,
		Reason: v1alpha1.ReasonOffline, Message: "it hangs"})
	w.update(t, w.host.Client, m)
	steps, err := Leave(t.Context(), w.host, w.member, "paris", LeaveOptions{Drain: true})
	if !errors.Is(err, ErrUndrainable) || !strings.HasSuffix(err.Error(), "the controllers do not reach paris: it hangs") || len(steps) > 0 {
		t.Errorf("%v %v", err, steps)
	}
	if got := fmt.Sprint(w.taints(t)); got != "[own:NoSchedule]" {
		t.Error(got)
	}
}

// A member that is not drained says what stays there.
func TestLeaveSaysWhatItOrphans(t *testing.T) {
	w := paris(t, 0)
	steps, err := Leave(t.Context(), w.host, w.member, "paris", LeaveOptions{})
	if err != nil || steps[0] != (Step{"member", "3 replicas of 1 FederatedReplicaSets", "kept"}) {
		t.Errorf("%v %v", steps, err)
	}
	if got := fmt.Sprint(inMember(t, w)); got != "[other web]" {
		t.Errorf("the member has %s", got)
	}
}

// What a kubeconfig says about how the member is reached, the controllers need as well.
func TestJoinKeepsHowTheMemberIsReached(t *testing.T) {
	w := newHostAndMember(t)
	w.member.Config.ServerName = "kubernetes.default"
	w.member.Config.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy.example.com:3128"})
	w.member.Config.BearerToken = "of the person"
	w.member.Config.Username, w.member.Config.Password = "person", "secret"
	if _, err := w.join(t, "paris"); err != nil {
		t.Fatal(err)
	}
	var s v1.Secret
	if err := w.host.Client.Get(t.Context(), client.ObjectKey{Namespace: "evenkeel-system", Name: "member-paris"}, &s); err != nil {
		t.Fatal(err)
	}
	config, _, err := members.ReadKubeconfig(s.Data["kubeconfig"], time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	request, _ := http.NewRequest(http.MethodGet, config.Host, http.NoBody)
	proxy, err := config.Proxy(request)
	if err != nil || proxy.String() != "http://proxy.example.com:3128" || config.ServerName != "kubernetes.default" {
		t.Errorf("%v %s %v", proxy, config.ServerName, err)
	}
	if strings.Contains(string(s.Data["kubeconfig"]), "person") {
		t.Errorf("credentials of a person are stored:\n%s", s.Data["kubeconfig"])
	}
}

// The nodes of a member are read only where that was asked for, and a renewal asks for the same.
func TestJoinWithFixedNodes(t *testing.T) {
	w := newHostAndMember(t)
	for i, test := range []struct {
		asked *bool
		rules int
	}{{nil, 4}, {new(true), 5}, {nil, 5}, {new(false), 4}} {
		o := Options{As: w.as, FixedNodes: test.asked}
		if _, err := Join(t.Context(), w.host, w.member, "paris", o); err != nil {
			t.Fatal(err)
		}
		m := &v1alpha1.MemberCluster{}
		if err := w.host.Client.Get(t.Context(), client.ObjectKey{Name: "paris"}, m); err != nil {
			t.Fatal(err)
		}
		role := w.role(t)
		if len(role.Rules) != test.rules || m.Spec.FixedNodes != (test.rules == 5) {
			t.Errorf("step %d: %d rules, fixed nodes %v", i, len(role.Rules), m.Spec.FixedNodes)
		}
	}
}

// A local object whose FederatedReplicaSet the host does not have is an orphan.
func TestOrphansHaveNoFederatedReplicaSet(t *testing.T) {
	w := paris(t, 0)
	orphans, err := Orphans(t.Context(), w.host, w.member, "paris")
	if want := []Orphan{{"paris", "replicaset/other", "shop", 3}}; err != nil || !slices.Equal(orphans, want) {
		t.Errorf("%+v, %v", orphans, err)
	}
}

// What was somebody else's before is kept when a member leaves, without replicas as it is.
func TestLeaveKeepsWhatWasAdopted(t *testing.T) {
	w := paris(t, 0)
	set := &appsv1.ReplicaSet{}
	key := client.ObjectKey{Namespace: "shop", Name: "web"}
	if err := w.member.Client.Get(t.Context(), key, set); err != nil {
		t.Fatal(err)
	}
	set.Annotations[v1alpha1.AnnotationFederatedAdopted], set.Spec.Replicas = "true", new(int32(0))
	w.update(t, w.member.Client, set)
	j := &joiner{host: w.host, member: w.member, name: "paris"}
	if err := j.deleteLocals(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.member.Client.Get(t.Context(), key, set); err != nil || len(j.steps) != 1 || j.steps[0].Result != "kept" {
		t.Errorf("%v %v", j.steps, err)
	}
}
