package admission

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/workloadspread"
)

const twoSubsets = `{targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, subsets: [
  {name: a, maxReplicas: 3, requiredNodeSelector: {matchExpressions: [{key: zone, operator: In, values: [a]}]}, tolerations: [{key: spot, operator: Exists}],
   patch: {metadata: {labels: {arch: x86}}, spec: {containers: [{name: main, resources: {limits: {cpu: 500m}}}]}}},
  {name: b}]}`

func TestANewPodGetsTheRulesOfItsSubset(t *testing.T) {
	w := newWebhookHarness(t, Options{}, append(deployment(5), spreadOf(t, "web", twoSubsets))...)
	pod, _ := w.create(podOfWeb)
	a, ok := workloadspread.AssignmentOf(pod)
	if !ok || a != (workloadspread.Assignment{Name: "web", Subset: "a", ID: "request-1"}) {
		t.Errorf("it is marked %+v", a)
	}
	if _, ok := w.spread("web").Status.VersionedSubsetStatuses["1"][0].CreatingPods["request-1"]; !ok {
		t.Errorf("it is not counted: %+v", w.spread("web").Status)
	}
	terms := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 1 || terms[0].MatchExpressions[0].Key != "zone" || pod.Spec.Tolerations[0].Key != "spot" || pod.Labels["arch"] != "x86" ||
		pod.Spec.Containers[0].Resources.Limits.Cpu().String() != "500m" {
		t.Errorf("%+v", pod)
	}
	for i, want := range []string{"a", "a", "b", "b"} {
		if pod, _ := w.create(podOfWeb); subsetOf(pod) != want {
			t.Errorf("pod %d is in %s, not in %s", i+2, subsetOf(pod), want)
		}
	}
}

// What a newer version of Kubernetes has in pods is kept.
func TestUnknownFieldsSurvive(t *testing.T) {
	w := newWebhookHarness(t, Options{}, append(deployment(5), spreadOf(t, "web", twoSubsets))...)
	_, _, response := w.call(PathMutatePods, createRequest(podOfWeb))
	var got map[string]any
	if err := json.Unmarshal(patched(t, podOfWeb, response.Patch), &got); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprint(got["spec"])
	for _, want := range []string{"afterTomorrow:map[a:1]", "afterTomorrow:2", "limits:map[cpu:500m]", "tolerations:"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in %s", want, text)
		}
	}
}

func TestManyPodsAtOnceThroughTwoServers(t *testing.T) {
	objects := append(deployment(90), spreadOf(t, "web",
		`{targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, subsets: [{name: a, maxReplicas: 20%}, {name: b, maxReplicas: 20%}, {name: c, maxReplicas: 60%}]}`))
	w := newWebhookHarness(t, Options{}, objects...)
	other := &webhookHarness{t: t, Client: w.Client, Server: newServerOf(w.Client), requests: 1000}
	var done sync.WaitGroup
	for i := range 90 {
		done.Go(func() {
			if pod, text := []*webhookHarness{w, other}[i%2].create(podOfWeb); pod == nil {
				t.Error(text)
			}
		})
	}
	done.Wait()
	if used := w.used("web"); used["a"] != 18 || used["b"] != 18 || used["c"] != 54 {
		t.Errorf("%v", used)
	}
}

// Which pods are left alone, and which WorkloadSpread a pod gets.
func TestWhichPods(t *testing.T) {
	change := func(old, by string) string { return strings.Replace(podOfWeb, old, by, 1) }
	const label = `"pod-template-hash":"1"`
	target := func(kind, name string) string {
		return `{targetRef: {apiVersion: apps/v1, kind: ` + kind + `, name: ` + name + `}, subsets: [{name: ` + strings.ToLower(kind) + `}]}`
	}
	for name, test := range map[string]struct {
		raw     string
		spreads map[string]string
		want    string
	}{
		"by its Deployment": {podOfWeb, map[string]string{"x": target("Deployment", "web")}, "deployment"},
		"by its ReplicaSet": {podOfWeb, map[string]string{"x": target("ReplicaSet", "web-1")}, "replicaset"},
		"the first by name": {podOfWeb, map[string]string{"x": target("ReplicaSet", "web-1"), "b": target("Deployment", "web")},
			"deployment"},
		"another group": {podOfWeb,
			map[string]string{"x": strings.Replace(target("Deployment", "web"), "subsets",
				"targetFilter: {replicasPathList: [spec.replicas]}, subsets", 1)}, "deployment"},
		"no WorkloadSpread": {podOfWeb, nil, "not marked"},
		"another workload":  {podOfWeb, map[string]string{"x": target("Deployment", "api")}, "not marked"},
		"selected": {podOfWeb,
			map[string]string{"x": strings.Replace(target("Deployment", "web"), "subsets",
				"targetFilter: {selector: {matchLabels: {app: web}}}, subsets", 1)}, "deployment"},
		"not selected": {podOfWeb,
			map[string]string{"x": strings.Replace(target("Deployment", "web"), "subsets",
				"targetFilter: {selector: {matchLabels: {app: api}}}, subsets", 1)}, "not marked"},
		"no controller": {change(`"controller":true`, `"controller":false`), map[string]string{"x": target("Deployment", "web")},
			"not marked"},
		"has ended": {change(`"spec"`, `"status":{"phase":"Failed"},"spec"`),
			map[string]string{"x": target("Deployment", "web")}, "not marked"},
		"mirrored": {change(`"labels"`, `"annotations":{"kubernetes.io/config.mirror":"x"},"labels"`),
			map[string]string{"x": target("Deployment", "web")}, "not marked"},
		"a copy with the mark": {change(`"labels"`,
			`"annotations":{"evenkeel.dev/workload-spread":"{\"name\":\"x\",\"subset\":\"z\",\"id\":\"old\"}"},"labels"`),
			map[string]string{"x": target("Deployment", "web")}, "deployment"},
		"a copy that is not spread": {change(`"labels"`,
			`"annotations":{"evenkeel.dev/workload-spread":"{\"name\":\"x\",\"subset\":\"z\",\"id\":\"old\"}"},"labels"`), nil, "not marked"},
		"an invalid spec before it": {podOfWeb,
			map[string]string{"a": `{targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, subsets: [{name: z, maxReplicas: 5, minReplicas: 6}]}`, "x": target("ReplicaSet", "web-1")}, "replicaset"},
		"the second of a workload": {podOfWeb,
			map[string]string{"a": strings.Replace(target("Deployment", "web"), "subsets",
				"targetFilter: {selector: {matchLabels: {app: api}}}, subsets", 1), "x": target("Deployment", "web")}, "not marked"},
		"the owner does not exist": {strings.ReplaceAll(podOfWeb, "uid-web-1", "uid-other"),
			map[string]string{"x": target("Deployment", "web")}, "refused"},
		"no owner, and nothing to find": {strings.ReplaceAll(podOfWeb, "uid-web-1", "uid-other"), nil, "not marked"},
		"a target that does not exist":  {change(label, label), map[string]string{"x": target("Deployment", "gone")}, "not marked"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := deployment(5)
			for name, spec := range test.spreads {
				objects = append(objects, spreadOf(t, name, spec))
			}
			w := newWebhookHarness(t, Options{}, objects...)
			pod, text := w.create(test.raw)
			if subsetOf(pod) != test.want {
				t.Errorf("%s, not %s: %s", subsetOf(pod), test.want, text)
			}
			if a, ok := workloadspread.AssignmentOf(orEmpty(pod)); ok && a.ID == "old" {
				t.Error("it is counted as another pod")
			}
		})
	}
}

func orEmpty(pod *v1.Pod) *v1.Pod {
	if pod == nil {
		return &v1.Pod{}
	}
	return pod
}

// A pod whose patch is refused, by what a patch may change or by the API server as the status says, does without
// it if the object says so, and is in its subset nevertheless.
func TestAPodDoesWithoutAPatchThatIsRefused(t *testing.T) {
	refused := v1alpha1.WorkloadSubsetStatus{Name: "a",
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionPatchFits, Status: metav1.ConditionFalse, Reason: "PatchRefused"}}}
	for name, c := range map[string]struct {
		patch  string
		when   v1alpha1.WhenPatchFails
		status []v1alpha1.WorkloadSubsetStatus
		subset string
		grace  bool
	}{
		"it fits": {`{"spec":{"terminationGracePeriodSeconds":7}}`, v1alpha1.WhenPatchFailsAdmit, nil, "a", true},
		"the API server refuses it": {`{"spec":{"terminationGracePeriodSeconds":7}}`, v1alpha1.WhenPatchFailsAdmit,
			[]v1alpha1.WorkloadSubsetStatus{refused}, "a", false},
		"and the pod with it": {`{"spec":{"terminationGracePeriodSeconds":7}}`, "", []v1alpha1.WorkloadSubsetStatus{refused}, "a",
			true},
		"it changes what it must not": {`{"metadata":{"labels":{"app":"x"}},"spec":{"terminationGracePeriodSeconds":7}}`,
			v1alpha1.WhenPatchFailsAdmit, nil, "a", false},
		"and the pod is refused as it is": {`{"metadata":{"labels":{"app":"x"}}}`, v1alpha1.WhenPatchFailsRefuse, nil, "refused", false},
	} {
		o := spreadOf(t, "web", twoSubsets)
		o.Spec.Subsets[0].Patch.Raw, o.Spec.WhenPatchFails, o.Status.SubsetStatuses = []byte(c.patch), c.when, c.status
		w := newWebhookHarness(t, Options{}, append(deployment(5), o)...)
		pod, text := w.create(podOfWeb)
		if got := subsetOf(pod); got != c.subset || pod != nil && (pod.Spec.TerminationGracePeriodSeconds != nil) != c.grace {
			t.Errorf("%s: %s: %s", name, got, text)
		}
	}
}
