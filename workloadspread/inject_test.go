package workloadspread

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

func in(key string, values ...string) v1.NodeSelectorRequirement {
	return v1.NodeSelectorRequirement{Key: key, Operator: v1.NodeSelectorOpIn, Values: values}
}

func webPod() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "web-", Namespace: "shop",
			Labels: map[string]string{"app": "web", "pod-template-hash": "5d9c"}},
		Spec: v1.PodSpec{
			Priority: new(int32(7)), PriorityClassName: "high",
			Tolerations: []v1.Toleration{{Key: "gpu", Operator: v1.TolerationOpExists}},
			Containers:  []v1.Container{{Name: "main", Image: "web:1"}},
		},
	}
}

func withPatch(patch string) *v1alpha1.WorkloadSubset {
	return &v1alpha1.WorkloadSubset{Name: "a", Patch: &runtime.RawExtension{Raw: []byte(patch)}}
}

var toA = Assignment{Name: "spread", Subset: "a", ID: "1"}

func TestInjectionAddsToEveryTerm(t *testing.T) {
	pod := webPod()
	pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{
			{MatchExpressions: []v1.NodeSelectorRequirement{in("disk", "ssd")}},
			{MatchExpressions: []v1.NodeSelectorRequirement{in("disk", "hdd")}}, {},
		}},
		PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{{Weight: 1}},
	}}
	before := pod.DeepCopy()
	subset := &v1alpha1.WorkloadSubset{
		Name:        "a",
		Tolerations: []v1.Toleration{{Key: "spot", Operator: v1.TolerationOpExists}},
		RequiredNodeSelector: &v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{in("zone", "a")},
			MatchFields: []v1.NodeSelectorRequirement{in("metadata.name", "n")}},
		PreferredNodeSelector: []v1.PreferredSchedulingTerm{{Weight: 2}},
	}
	got, err := Inject(pod, subset, toA, nil)
	if err != nil {
		t.Fatal(err)
	}
	affinity := got.Spec.Affinity.NodeAffinity
	for i, term := range affinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[:2] {
		if len(term.MatchExpressions) != 2 || term.MatchExpressions[1].Key != "zone" || len(term.MatchFields) != 1 {
			t.Errorf("term %d: %+v", i, term)
		}
	}
	if empty := affinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[2]; len(empty.MatchExpressions) != 0 {
		t.Errorf("a term that matches nothing: %+v", empty)
	}
	if p := affinity.PreferredDuringSchedulingIgnoredDuringExecution; len(p) != 2 || p[1].Weight != 2 {
		t.Errorf("preferred: %+v", p)
	}
	if l := got.Spec.Tolerations; len(l) != 2 || l[0].Key != "gpu" || l[1].Key != "spot" {
		t.Errorf("tolerations: %+v", l)
	}
	if a, ok := AssignmentOf(got); !ok || a != toA {
		t.Errorf("assignment: %+v", a)
	}
	if !equality.Semantic.DeepEqual(pod, before) {
		t.Error("the pod that was handed in has changed")
	}
}

func TestPatchesThatFit(t *testing.T) {
	got, err := Inject(webPod(),
		withPatch(`{"metadata":{"labels":{"resource.cpu/arch":"arm"},"annotations":{"x":"y"}},"spec":{"containers":[{"name":"main","resources":{"limits":{"cpu":"300m","memory":"600Mi"}}}]}}`), toA, labels.SelectorFromSet(labels.Set{"app": "web"}))
	if err != nil {
		t.Fatal(err)
	}
	if c := got.Spec.Containers[0]; c.Image != "web:1" || !c.Resources.Limits.Cpu().Equal(resource.MustParse("300m")) ||
		got.Labels["resource.cpu/arch"] != "arm" || got.Spec.Priority == nil {
		t.Errorf("%+v", got)
	}
	got, err = Inject(webPod(), withPatch(`{"spec":{"priorityClassName":"low"}}`), toA, nil)
	if err != nil || got.Spec.Priority != nil {
		t.Errorf("another class keeps priority %v: %v", got.Spec.Priority, err)
	}
	got, err = Inject(webPod(),
		withPatch(`{"spec":{"volumes":[{"name":"tmp","emptyDir":{}}],"containers":[{"name":"main","env":[{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}]},{"name":"new","image":"new:1"}]}}`), toA, nil)
	if err != nil || len(got.Spec.Volumes) != 1 || len(got.Spec.Containers) != 2 {
		t.Errorf("%+v: %v", got, err)
	}
}

func TestPatchesThatAreRefused(t *testing.T) {
	for patch, want := range map[string]string{
		`{"metadata":{"name":"x"}}`:           "metadata.name",
		`{"metadata":{"generateName":"x-"}}`:  "metadata.generateName",
		`{"metadata":{"namespace":"x"}}`:      "metadata.namespace",
		`{"metadata":{"uid":"x"}}`:            "metadata.uid",
		`{"metadata":{"finalizers":["x/y"]}}`: "metadata.finalizers",
		`{"metadata":{"ownerReferences":[{"uid":"1","name":"x","kind":"X","apiVersion":"v1"}]}}`:       "metadata.ownerReferences",
		`{"metadata":{"labels":{"pod-template-hash":"x"}}}`:                                            "pod-template-hash",
		`{"metadata":{"labels":{"pod-template-hash":null}}}`:                                           "pod-template-hash",
		`{"metadata":{"labels":{"app":"api"}}}`:                                                        "metadata.labels[app]: a patch adds labels only",
		`{"metadata":{"annotations":{"evenkeel.dev/workload-spread":"{}"}}}`:                           "evenkeel.dev/workload-spread",
		`{"metadata":{"annotations":null}}`:                                                            "evenkeel.dev/workload-spread",
		`{"metadata":{"annotations":{"$patch":"replace"}}}`:                                            "evenkeel.dev/workload-spread",
		`{"metadata":{"annotations":{"controller.kubernetes.io/pod-deletion-cost":"1"}}}`:              "pod-deletion-cost",
		`{"status":{"phase":"Running"}}`:                                                               "status",
		`{"kind":"Node"}`:                                                                              "kind",
		`{"spec":{"nodeName":"n"}}`:                                                                    "spec.nodeName",
		`{"spec":{"serviceAccountName":"admin"}}`:                                                      "spec.serviceAccountName",
		`{"spec":{"serviceAccount":"admin"}}`:                                                          "spec.serviceAccount",
		`{"spec":{"automountServiceAccountToken":true}}`:                                               "spec.automountServiceAccountToken",
		`{"spec":{"hostNetwork":true}}`:                                                                "spec.hostNetwork",
		`{"spec":{"hostPID":true}}`:                                                                    "spec.hostPID",
		`{"spec":{"hostIPC":true}}`:                                                                    "spec.hostIPC",
		`{"spec":{"hostUsers":true}}`:                                                                  "spec.hostUsers",
		`{"spec":{"securityContext":{"runAsUser":0}}}`:                                                 "spec.securityContext",
		`{"spec":{"containers":[{"name":"main","securityContext":{"privileged":true}}]}}`:              "spec.containers[main].securityContext",
		`{"spec":{"containers":[{"name":"main","ports":[{"containerPort":80,"hostPort":80}]}]}}`:       "spec.containers[main].ports",
		`{"spec":{"initContainers":[{"name":"x","image":"x","securityContext":{"privileged":true}}]}}`: "spec.initContainers[x].securityContext",
		`{"spec":{"volumes":[{"name":"root","hostPath":{"path":"/"}}]}}`:                               "spec.volumes[root]",
		`{"spec":{"volumes":[{"name":"s","secret":{"secretName":"s"}}]}}`:                              "spec.volumes[s]",
		`{"spec":{"tolerations":null}}`: "must not change " +
			"spec.tolerations: use tolerations of the subset",
		`{"spec":{"affinity":null}}`: "must not change spec.affinity: use requiredNodeSelector",
		`{"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[]}}}}}`: "spec.affinity.nodeAffinity",
		`{"spec":{"tolerations":[{"operator":"Exists"}]}}`:                                                                   "must not change spec.tolerations",
		`{"spec":{"nodeSelector":{"a":"b"}}}`:                                                                                "spec.nodeSelector: use requiredNodeSelector",
		`{"spec":{"imagePullSecrets":[{"name":"s"}]}}`:                                                                       "spec.imagePullSecrets",
		`{"spec":{"runtimeClassName":"x"}}`:                                                                                  "spec.runtimeClassName",
		`{"spec":{"schedulingGates":[{"name":"x"}]}}`:                                                                        "spec.schedulingGates",
		`{"spec":{"misspelled":1}}`:                                                                                          "spec.misspelled",
		`{"spec":{"volumes":[{"name":"p","projected":{"sources":[{"serviceAccountToken":{"path":"t"}}]}}]}}`:                 "spec.volumes[p].projected",
		`{"spec":{"containers":[{"name":"main","envFrom":[{"secretRef":{"name":"s"}}]}]}}`:                                   "spec.containers[main].envFrom",
		`{"spec":{"containers":[{"name":"main","env":[{"name":"A","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}]}]}}`: "spec.containers[main].env[A].valueFrom.secretKeyRef",
		`{"spec":{"containers":[{"name":"main","lifecycle":{"preStop":{"exec":{"command":["x"]}}}}]}}`:                       "spec.containers[main].lifecycle",
		`{"spec":{"containers":[{"name":"main","resources":{"claims":[{"name":"gpu"}]}}]}}`:                                  "spec.containers[main].resources.claims",
		`{"spec":{"containers":[{"name":"new","image":"x","securityContext":{}}]}}`:                                          "spec.containers[new].securityContext",
		`{"metadata":{"annotations":{"container.apparmor.security.beta.kubernetes.io/main":"unconfined"}}}`:                  "apparmor",
		`{"metadata":{"ownerReferences":null,"labels":null}}`:                                                                "must not change metadata.ownerReferences",
		`{"metadata":{"labels":{"job-name":"x"}}}`:                                                                           "metadata.labels[job-name]",
		`{"metadata":{"labels":{"canary":"yes"}}}`:                                                                           "the workload would not find its pods",
		`{"spec":{"containers":null}}`:                                                                                       "must not change spec.containers",
		`{"spec":{"containers":[{"name":"main","$patch":"delete"}]}}`:                                                        "must not change spec.containers[main]",
		`{"spec":{"containers":[{"name":"other"}]}}`:                                                                         "needs an image",
		`{"spec":{"containers":[{"image":"x"}]}}`:                                                                            "cannot be merged",
		`{"spec":{"containers":5}}`:                                                                                          "",
		`{"spec":{"priority":"high"}}`:                                                                                       "breaks the pod",
		`{"metadata":{"labels":{"x":"a b"}}}`:                                                                                "breaks the pod",
		`[]`:                                                                                                                 "cannot be merged",
	} {
		subset := withPatch(patch)
		subset.RequiredNodeSelector = &v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{in("zone", "a")}}
		selector, err := labels.Parse("app=web,!canary")
		if err != nil {
			t.Fatal(err)
		}
		got, err := Inject(webPod(), subset, toA, selector)
		if err == nil || !strings.Contains(err.Error(), want) || got != nil {
			t.Errorf("%s: %v, want %q", patch, err, want)
		}
	}
}

// A pod keeps its labels if it is not known how its workload finds it: it may be created before anything is known of that.
func TestLabelsWithoutASelector(t *testing.T) {
	if got, err := Inject(webPod(), withPatch(`{"metadata":{"labels":{"x":"y"}}}`), toA, nil); err == nil ||
		!strings.Contains(err.Error(), "it is not known how") {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := Inject(webPod(), withPatch(`{"metadata":{"annotations":{"x":"y"}}}`), toA, nil); err != nil || got.Annotations["x"] != "y" {
		t.Errorf("got %v, %v", got, err)
	}
}

// Every field of a pod, also one that Kubernetes adds, is refused unless the page has it, which has all that are
// not.
func TestPatchableFieldsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/workloadspread.md")
	if err != nil {
		t.Fatal(err)
	}
	text, top := string(page), map[string]bool{}
	for _, field := range patchable {
		if field = strings.Replace(field, "initContainers", "containers", 1); !strings.Contains(text, "`"+field+"`") {
			t.Errorf("the page about WorkloadSpreads lacks %s", field)
		}
		if rest, ok := strings.CutPrefix(field, "spec."); ok {
			name, _, _ := strings.Cut(strings.TrimSuffix(rest, "[]"), ".")
			top[strings.TrimSuffix(name, "[]")] = true
		}
	}
	top["initContainers"] = true
	spec := reflect.TypeFor[v1.PodSpec]()
	refused := 0
	for i := range spec.NumField() {
		name, _, _ := strings.Cut(spec.Field(i).Tag.Get("json"), ",")
		if top[name] || name == "" {
			continue
		}
		if err := onlyPatchable("", "", map[string]any{"spec": map[string]any{name: 1}}); err == nil {
			t.Errorf("spec.%s may be changed", name)
		}
		refused++
	}
	if refused < 25 {
		t.Errorf("only %d fields were looked at", refused)
	}
}

// Whatever the patch is, the pod stays what it was, in its place, and a pod.
func FuzzInject(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"spec":{"containers":[{"name":"main","image":"x"}]}}`, `{"metadata":{"labels":{"a":"b"}}}`, `{"spec":{"$patch":"replace"}}`,
		`{"$patch":"delete"}`, `{"spec":{"$setElementOrder/containers":[{"name":"x"}]}}`, `{"spec":{"$retainKeys":["x"]}}`, `null`,
		`{"metadata":null}`,
		`{"spec":{"tolerations":[{"$patch":"replace"}]}}`, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["x"]}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, patch string) {
		pod := webPod()
		before := pod.DeepCopy()
		got, err := Inject(pod, withPatch(patch), toA, labels.Everything())
		if !equality.Semantic.DeepEqual(pod, before) {
			t.Fatal("the pod that was handed in has changed")
		}
		if err != nil {
			return
		}
		if a, ok := AssignmentOf(got); !ok || a != toA || got.Namespace != "shop" || got.GenerateName != "web-" || got.Name != "" {
			t.Fatalf("%+v", got.ObjectMeta)
		}
		if len(got.Spec.Containers) == 0 || got.Spec.HostNetwork || got.Spec.ServiceAccountName != "" || len(got.Spec.Tolerations) < 1 ||
			got.Labels["pod-template-hash"] != "5d9c" || got.Labels["app"] != "web" {
			t.Fatalf("%+v", got.Spec)
		}
		again, err := Inject(pod, withPatch(patch), toA, labels.Everything())
		one, _ := json.Marshal(got)
		two, _ := json.Marshal(again)
		if err != nil || string(one) != string(two) {
			t.Fatalf("%s, then %s: %v", one, two, err)
		}
	})
}

// Paths of replicas are read without surprises.
func FuzzObserve(f *testing.F) {
	for _, path := range []string{"spec.replicas", "spec.parts.1.size", "spec.parts.-1.size", "", "..", "spec.parts.99999999999999999999.size",
		"spec"} {
		f.Add(path, int64(3))
	}
	f.Fuzz(func(t *testing.T, path string, n int64) {
		spec := deployment("")
		spec.TargetFilter = &v1alpha1.WorkloadFilter{ReplicasPathList: []string{path}}
		object := map[string]any{"spec": map[string]any{"replicas": n, "parts": []any{map[string]any{"size": n}, map[string]any{"size": n}}}}
		w, err := Observe(spec, object)
		switch {
		case err != nil && w != Workload{}:
			t.Fatalf("%+v with %v", w, err)
		case err == nil && w.Replicas != 0 && int64(w.Replicas) != n:
			t.Fatalf("%d at %s of %d", w.Replicas, path, n)
		}
	})
}

// What an annotation says is read, whatever the names are, and nothing of what is no assignment.
func FuzzAssignment(f *testing.F) {
	f.Add("web", "a", "", "{}")
	f.Add(`w"\eb`, "", "x", `{"name":"a"b","subset":"b"}`)
	f.Add("<&>", "ä", "\x00", `{"subset":"a","name":7}`)
	f.Fuzz(func(t *testing.T, name, subset, id, text string) {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationSpread: Assignment{name, subset, id}.String()}}}
		want := Assignment{strings.ToValidUTF8(name, "\ufffd"), strings.ToValidUTF8(subset, "\ufffd"), strings.ToValidUTF8(id, "\ufffd")}
		if got, ok := AssignmentOf(pod); utf8.ValidString(name+subset+id) && (!ok || got != want) {
			t.Errorf("read %+v, not %+v", got, want)
		}
		pod.Annotations[AnnotationSpread] = text
		if got, ok := AssignmentOf(pod); ok != (json.Unmarshal([]byte(text), &Assignment{}) == nil) || !ok && got != (Assignment{}) {
			t.Errorf("%q: read %+v", text, got)
		}
	})
}

// Whether pods are refused with the patch of a subset is a condition of it, and an event when that begins. What is not
// known changes nothing, and without a patch there is no condition.
func TestThePatchOfASubsetFits(t *testing.T) {
	spec, status := deployment("", ""), &v1alpha1.WorkloadSpreadStatus{}
	spec.Subsets[0].Patch = &runtime.RawExtension{Raw: []byte(`{}`)}
	for _, c := range []struct {
		patches map[string]string
		want    metav1.ConditionStatus
		events  int
	}{
		{nil, "", 0},
		{map[string]string{"a": ""}, metav1.ConditionTrue, 0},
		{map[string]string{"a": "too much"}, metav1.ConditionFalse, 1},
		{map[string]string{"a": "too much"}, metav1.ConditionFalse, 0},
		{nil, metav1.ConditionFalse, 0},
		{map[string]string{"a": ""}, metav1.ConditionTrue, 0},
	} {
		in := inputOf(spec, 1)
		in.Patches, in.Status = c.patches, status
		d := Decide(in)
		status = d.Status
		var got metav1.ConditionStatus
		if found := meta.FindStatusCondition(status.SubsetStatuses[0].Conditions, v1alpha1.ConditionPatchFits); found != nil {
			got = found.Status
		}
		if got != c.want || len(d.Events) != c.events {
			t.Errorf("%v: %q, %v", c.patches, got, d.Events)
		}
	}
	spec.Subsets[0].Patch = nil
	in := inputOf(spec, 1)
	in.Status = status
	if d := Decide(in); len(d.Status.SubsetStatuses[0].Conditions) != 1 {
		t.Errorf("without a patch: %+v", d.Status.SubsetStatuses[0].Conditions)
	}
}
