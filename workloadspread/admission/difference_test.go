package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/json"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/workloadspread"
)

// rules are subsets in YAML that change pods in different ways.
var rules = []string{
	`{name: a}`,
	`{name: a, requiredNodeSelector: {matchExpressions: [{key: zone, operator: Exists}]}}`,
	`{name: a, tolerations: [{key: spot, operator: Exists}], preferredNodeSelector: [{weight: 3, preference: {matchExpressions: [{key: disk, operator: Exists}]}}]}`,
	`{name: a, patch: {metadata: {labels: {x: y}, annotations: {x: y}}, spec: {priorityClassName: high}}}`,
	`{name: a, patch: {spec: {containers: [{name: c1, env: [{name: A, value: b}], resources: {limits: {cpu: 1}}}, {name: new, image: x}]}}}`,
	`{name: a, patch: {spec: {containers: [{name: c0, command: [x], args: null}], terminationGracePeriodSeconds: null, volumes: [{name: tmp, emptyDir: {}}]}}}`,
	`{name: a, patch: {spec: {$setElementOrder/containers: [{name: c1}, {name: c0}], containers: [{name: c0, image: z}]}}}`,
}

// strange adds fields to objects that no version of Kubernetes has, and returns their values.
func strange(t *rapid.T, value any, added *[]string) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			strange(t, value[key], added)
		}
		if _, isPod := value["spec"]; (isPod || value["name"] != nil || value["containers"] != nil || value["key"] != nil) &&
			rapid.Bool().Draw(t, "strange") {
			mark := fmt.Sprintf("strange-%d-", len(*added))
			*added = append(*added, mark)
			value["afterTomorrow"] = map[string]any{"value": mark}
		}
	case []any:
		for _, inner := range value {
			strange(t, inner, added)
		}
	}
}

// The patch makes of what was sent exactly the pod that was decided, and keeps all fields that are not
// known.
func TestTheDifferenceIsExactAndKeepsWhatIsUnknown(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		pod := &v1.Pod{}
		pod.GenerateName = "web-"
		pod.Spec.PriorityClassName = rapid.SampledFrom([]string{"", "low", "high"}).Draw(r, "class")
		if pod.Spec.PriorityClassName != "" {
			priority := int32(3)
			pod.Spec.Priority = &priority
		}
		for i := range rapid.IntRange(1, 3).Draw(r, "containers") {
			c := v1.Container{Name: fmt.Sprint("c", i), Image: "web", Args: []string{"a", "b"}}
			for j := range rapid.IntRange(0, 2).Draw(r, "env") {
				c.Env = append(c.Env, v1.EnvVar{Name: string(rune('A' + j)), Value: "1"})
			}
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
		for i := range rapid.IntRange(0, 2).Draw(r, "tolerations") {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, v1.Toleration{Key: fmt.Sprint("t", i), Operator: v1.TolerationOpExists})
		}
		if rapid.Bool().Draw(r, "labels") {
			pod.Labels, pod.Annotations = map[string]string{"app": "web"}, map[string]string{"a": "b"}
		}
		text, err := json.Marshal(pod)
		if err != nil {
			r.Fatal(err)
		}
		var sent map[string]any
		if err := json.Unmarshal(text, &sent); err != nil {
			r.Fatal(err)
		}
		var added []string
		strange(r, sent, &added)
		raw, err := json.Marshal(sent)
		if err != nil {
			r.Fatal(err)
		}
		o := spreadOf(t, "web", `{targetRef: {}, subsets: [`+rapid.SampledFrom(rules).Draw(r, "subset")+`]}`)
		a := workloadspread.Assignment{Name: "web", Subset: "a"}
		want, err := workloadspread.Inject(pod, &o.Spec.Subsets[0], a, nil)
		if err != nil {
			r.Skip(err) // such as a container that the pod does not have
		}
		got, err := workloadspread.InjectNew(sent, o, 0, a, nil)
		if err != nil || !equality.Semantic.DeepEqual(got.Pod, want) {
			r.Fatal(cmp.Diff(want, got.Pod), err)
		}
		patch, err := difference(raw, got.Fields)
		if err != nil {
			r.Fatal(err)
		}
		result := patched(t, string(raw), patch)
		patched := &v1.Pod{}
		if err := json.Unmarshal(result, patched); err != nil {
			r.Fatal(err)
		}
		if !equality.Semantic.DeepEqual(patched, want) {
			r.Errorf("%s\n%s", patch, cmp.Diff(want, patched))
		}
		for _, mark := range added {
			if !strings.Contains(string(result), mark) {
				r.Errorf("%s is lost: %s\n%s", mark, raw, result)
			}
		}
	})
}
