package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
)

// balancerClient installs the definition of Balancers and returns a client that knows their type.
func balancerClient(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane) client.WithWatch {
	t.Helper()
	apply(ctx, t, plane, "../crd")
	c := clientOf(t, plane)
	kinds := []client.ObjectList{&v1alpha1.BalancerList{}, &v1alpha1.FederatedReplicaSetList{}, &v1alpha1.MemberClusterList{},
		&v1alpha1.WorkloadSpreadList{}}
	until(ctx, t, "all kinds are served", func() bool {
		return !slices.ContainsFunc(kinds, func(kind client.ObjectList) bool { return c.List(ctx, kind) != nil })
	})
	return c
}

// clientOf also knows the types of evenkeel.
func clientOf(t *testing.T, plane *controlplane.ControlPlane) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.NewWithWatch(plane.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Every sample is accepted, and its Balancers have no field that the Go type lacks.
func acceptedSamples(ctx context.Context, t *testing.T, c client.Client) {
	balancers := 0
	for _, o := range read(t, "../samples") {
		o.SetNamespace(metav1.NamespaceDefault)
		if o.GetKind() == v1alpha1.KindBalancer {
			balancers++
			text, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			if err := yaml.UnmarshalStrict(text, &v1alpha1.Balancer{}); err != nil {
				t.Errorf("%s: %v", o.GetName(), err)
			}
		}
		if err := c.Create(ctx, o, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
			t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
	if balancers != 3 {
		t.Errorf("%d Balancers among the samples, want 3", balancers)
	}
}

// A Balancer that is valid; the cases below change some fields of it.
const validBalancer = `
apiVersion: evenkeel.dev/v1alpha1
kind: Balancer
metadata: {namespace: default, name: web}
spec:
  replicas: 6
  selector: {matchLabels: {app: web}}
  targets:
  - {name: a, scaleTargetRef: {kind: Deployment, name: web-a}, minReplicas: 1, maxReplicas: 1}
  - {name: b, scaleTargetRef: {kind: Deployment, name: web-b, apiVersion: apps/v1}}
  - {name: c, scaleTargetRef: {kind: Deployment, name: web-c, apiVersion: apps/v1beta2}}
  policy:
    policyName: proportional
    proportions: {targetProportions: {a: 1, b: 2, c: 0}}
`

// toPriority changes the policy of the valid Balancer.
const toPriority = `policyName: priority, proportions: null, priorities: {targetOrder: [b, a]}`

// changed is the valid Balancer with a JSON merge patch applied, which is written as YAML.
func changed(t *testing.T, patch string) *unstructured.Unstructured {
	t.Helper()
	var object, change map[string]any
	for text, into := range map[string]*map[string]any{validBalancer: &object, patch: &change} {
		if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	merge(object, change)
	return &unstructured.Unstructured{Object: object}
}

func merge(into, patch map[string]any) {
	for key, value := range patch {
		inner, isMap := value.(map[string]any)
		old, wasMap := into[key].(map[string]any)
		switch {
		case value == nil:
			delete(into, key)
		case isMap && wasMap:
			merge(old, inner)
		default:
			into[key] = value
		}
	}
}

func acceptedBalancers(ctx context.Context, t *testing.T, c client.Client) {
	for name, patch := range map[string]string{
		"as it is":               `{}`,
		"a name to be generated": `metadata: {name: null, generateName: web-}`,
		"no replicas":            `spec: {replicas: null}`,
		"zero replicas":          `spec: {replicas: 0}`,
		"most replicas":          `spec: {replicas: 2147483647}`,
		"one target":             `spec: {targets: [{name: a, scaleTargetRef: {kind: StatefulSet, name: x}}], policy: {proportions: {targetProportions: {b: null, c: null}}}}`,
		"a custom resource":      `spec: {targets: [{name: a, scaleTargetRef: {apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: x}}], policy: {proportions: {targetProportions: {b: null, c: null}}}}`,
		"a core resource":        `spec: {targets: [{name: a, scaleTargetRef: {apiVersion: v1, kind: ReplicationController, name: x}}], policy: {proportions: {targetProportions: {b: null, c: null}}}}`,
		"one name, two kinds":    `spec: {targets: [{name: a, scaleTargetRef: {kind: Deployment, name: x}}, {name: b, scaleTargetRef: {kind: StatefulSet, name: x}}], policy: {proportions: {targetProportions: {c: null}}}}`,
		"another Balancer":       `spec: {targets: [{name: a, scaleTargetRef: {apiVersion: evenkeel.dev/v1alpha1, kind: Balancer, name: api}}], policy: {proportions: {targetProportions: {b: null, c: null}}}}`,
		"a Balancer of others":   `spec: {targets: [{name: a, scaleTargetRef: {apiVersion: example.com/v1, kind: Balancer, name: web}}], policy: {proportions: {targetProportions: {b: null, c: null}}}}`,
		"a target without rate":  `spec: {policy: {proportions: {targetProportions: {c: null}}}}`,
		"priority":               `spec: {policy: {` + toPriority + `}}`,
		"LaterOnly":              `spec: {policy: {` + toPriority + `, relief: LaterOnly}}`,
		"options":                `spec: {policy: {relief: HealthyOnly, rebalance: false, rounding: DHondt, tieBreak: Hash, minMode: Additive, maxMovesPerMinute: 1}}`,
		"fallback":               `spec: {policy: {fallback: {startupTimeout: 1s, stabilizationTime: 1m30s}}}`,
		"fallback as Go says it": `spec: {policy: {fallback: {startupTimeout: 1.5s, stabilizationTime: 1h0m0s}}}`,
		"labels of all kinds": selector(`matchLabels: {a: "", app.kubernetes.io/Part_of.It: 1a, ` + strings.Repeat("p", 253) + `/` +
			strings.Repeat("n", 63) + `: ` + strings.Repeat("v", 63) + `}`),
		"every operator":  selector(`matchExpressions: [{key: a/b, operator: In, values: [x, ""]}, {key: c, operator: NotIn, values: [x]}, {key: d, operator: Exists}, {key: e, operator: DoesNotExist, values: []}]`),
		"a set of values": `spec: {selector: {matchLabels: null, matchExpressions: [{key: app, operator: In, values: [web]}, {key: old, operator: DoesNotExist}]}}`,
	} {
		o := changed(t, patch)
		if err := c.Create(ctx, o, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whatever makes no sense is refused, and the answer names the field.
func refusedBalancers(ctx context.Context, t *testing.T, c client.Client) {
	for _, r := range []struct{ name, patch, field, message string }{
		{"no spec", `spec: null`, "spec", "Required"},
		{"negative replicas", `spec: {replicas: -1}`, "spec.replicas", "greater than or equal to 0"},
		{"too many replicas", `spec: {replicas: 2147483648}`, ".spec.replicas", "less than or equal to 2147483647"},
		{"half a replica", `spec: {replicas: 1.5}`, "spec.replicas", "must be of type int32"},

		{"no selector", `spec: {selector: null}`, "spec.selector", "Required"},
		{"empty selector", `spec: {selector: {matchLabels: {app: null}}}`, "spec.selector", "must not be empty"},
		{"bad key", selector(`matchLabels: {-app: web}`), "spec.selector.matchLabels", "-app is not a label key"},
		{"bad key among others", selector(`matchLabels: {a: b, example.com/app: web, x/y/z: ""}`), "spec.selector.matchLabels",
			"x/y/z is not a label key"},
		{"long key", selector(`matchLabels: {` + strings.Repeat("k", 64) + `: web}`), "spec.selector.matchLabels", "kkk is not a label key"},
		{"longer than any key", selector(`matchLabels: {? ` + strings.Repeat("k", 100_000) + ` : web}`), "spec.selector.matchLabels",
			"every key must be a label key"},
		{"prefix of a key in capitals", selector(`matchLabels: {Example.com/app: web}`), "spec.selector.matchLabels",
			"Example.com/app is not a label key"},
		{"many labels", selector(`matchLabels: {` + each(101, `k%d: ""`) + `}`), "spec.selector.matchLabels", "at most 100 items"},
		{"bad value", selector(`matchLabels: {app: my web}`), "spec.selector.matchLabels.app", "should match"},
		{"value that ends badly", selector(`matchLabels: {app: web-}`), "spec.selector.matchLabels.app", "should match"},
		{"long value", selector(`matchLabels: {app: ` + strings.Repeat("v", 64) + `}`), "spec.selector.matchLabels.app",
			"may not be more than 63"},
		{"number as a value", selector(`matchLabels: {app: 1}`), "spec.selector.matchLabels.app", "must be of type string"},
		{"no key", expression(`operator: Exists`), "spec.selector.matchExpressions[0].key", "Required"},
		{"empty key", expression(`key: "", operator: Exists`), "spec.selector.matchExpressions[0].key", "at least 1 chars"},
		{"bad key in an expression", expression(`key: app/, operator: Exists`), "spec.selector.matchExpressions[0].key",
			"is not a label key: name part must be non-empty"},
		{"long prefix in an expression", expression(`key: ` + strings.Repeat("k", 254) + `/a, operator: Exists`),
			"spec.selector.matchExpressions[0].key", "is not a label key: prefix part must be no more than 253"},
		{"longer than any key in an expression", expression(`key: ` + strings.Repeat("k", 318) + `, operator: Exists`),
			"spec.selector.matchExpressions[0].key", "may not be more than 317"},
		{"no operator", expression(`key: app`), "spec.selector.matchExpressions[0].operator", "Required"},
		{"unknown operator", expression(`key: app, operator: Is, values: [web]`), "spec.selector.matchExpressions[0].operator",
			`supported values: "In", "NotIn", "Exists", "DoesNotExist"`},
		{"operator of fields", expression(`key: app, operator: Gt, values: ["1"]`), "spec.selector.matchExpressions[0].operator",
			"supported values"},
		{"operator without values", expression(`key: app, operator: In`), "spec.selector.matchExpressions[0].values",
			"are required when operator is In or NotIn"},
		{"operator with empty values", expression(`key: app, operator: NotIn, values: []`), "spec.selector.matchExpressions[0].values",
			"are required when operator is In or NotIn"},
		{"operator with values", expression(`key: app, operator: Exists, values: [web]`), "spec.selector.matchExpressions[0].values",
			"are for operator In or NotIn only"},
		{"bad value in an expression", expression(`key: app, operator: In, values: [web, .api]`), "spec.selector.matchExpressions[0].values[1]",
			"should match"},
		{"long value in an expression", expression(`key: app, operator: In, values: [` + strings.Repeat("v", 64) + `]`),
			"spec.selector.matchExpressions[0].values[0]", "may not be more than 63"},
		{"many values", expression(`key: app, operator: In, values: [` + each(101, `v%d`) + `]`), "spec.selector.matchExpressions[0].values",
			"at most 100 items"},
		{"many expressions", selector(`matchExpressions: [` + each(101, `{key: k%d, operator: Exists}`) + `]`), "spec.selector.matchExpressions",
			"at most 100 items"},

		{"no targets", `spec: {targets: null}`, "spec.targets", "Required"},
		{"empty targets", `spec: {targets: []}`, "spec.targets", "at least 1 item"},
		{"101 targets", `spec: {targets: [` + strings.TrimSuffix(strings.Repeat(`{name: a, scaleTargetRef: {kind: Deployment, name: x}},`, 101),
			",") + `]}`, "spec.targets", "at most 100 items"},
		{"a name twice", targets(`{name: a, scaleTargetRef: {kind: Deployment, name: x}}, {name: a, scaleTargetRef: {kind: Deployment, name: y}}`), "spec.targets[1]", "Duplicate value"},
		{"no name", targets(`{scaleTargetRef: {kind: Deployment, name: x}}`), "spec.targets[0].name", "Required"},
		{"empty name", targets(`{name: "", scaleTargetRef: {kind: Deployment, name: x}}`), "spec.targets[0].name", "at least 1 chars"},
		{"long name", targets(`{name: ` + strings.Repeat("n", 64) + `, scaleTargetRef: {kind: Deployment, name: x}}`), "spec.targets[0].name",
			"may not be more than 63"},
		{"blank in a name", targets(`{name: zone a, scaleTargetRef: {kind: Deployment, name: x}}`), "spec.targets[0].name", "should match"},
		{"no reference", targets(`{name: a}`), "spec.targets[0].scaleTargetRef", "Required"},
		{"no kind", targets(`{name: a, scaleTargetRef: {name: x}}`), "spec.targets[0].scaleTargetRef.kind", "Required"},
		{"slash in a kind", targets(`{name: a, scaleTargetRef: {kind: apps/Deployment, name: x}}`), "spec.targets[0].scaleTargetRef.kind",
			"should match"},
		{"no object's name", targets(`{name: a, scaleTargetRef: {kind: Deployment}}`), "spec.targets[0].scaleTargetRef.name", "Required"},
		{"slash in an object's name", targets(`{name: a, scaleTargetRef: {kind: Deployment, name: shop/x}}`),
			"spec.targets[0].scaleTargetRef.name", "should match"},
		{"no version", targets(`{name: a, scaleTargetRef: {kind: Rollout, name: x}}`), "spec.targets[0].scaleTargetRef.apiVersion",
			"is required unless kind is Deployment, StatefulSet or ReplicaSet"},
		{"no version after a slash", targets(`{name: a, scaleTargetRef: {apiVersion: apps/, kind: Deployment, name: x}}`),
			"spec.targets[0].scaleTargetRef.apiVersion", "should match"},
		{"negative min", targets(`{name: a, scaleTargetRef: {kind: Deployment, name: x}, minReplicas: -1}`), "spec.targets[0].minReplicas",
			"greater than or equal to 0"},
		{"negative max", targets(`{name: a, scaleTargetRef: {kind: Deployment, name: x}, maxReplicas: -1}`), "spec.targets[0].maxReplicas",
			"greater than or equal to 0"},
		{"min above max", targets(`{name: a, scaleTargetRef: {kind: Deployment, name: x}, minReplicas: 2, maxReplicas: 1}`),
			"spec.targets[0].minReplicas", "must not be greater than maxReplicas"},
		{"one object twice",
			targets(`{name: a, scaleTargetRef: {kind: Deployment, name: x}}, {name: b, scaleTargetRef: {kind: Deployment, name: x}}`),
			"spec.targets", "must not refer to one object twice"},
		{"one object in two versions",
			targets(`{name: a, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: x}}, {name: b, scaleTargetRef: {apiVersion: apps/v1beta2, kind: Deployment, name: x}}`), "spec.targets", "must not refer to one object twice"},
		{"one object without and with version",
			targets(`{name: a, scaleTargetRef: {kind: Deployment, name: x}}, {name: b, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: x}}`), "spec.targets", "must not refer to one object twice"},
		{"itself", targets(`{name: a, scaleTargetRef: {apiVersion: evenkeel.dev/v1alpha1, kind: Balancer, name: web}}`), "spec.targets",
			"a Balancer cannot be a target of itself"},

		{"no policy", `spec: {policy: null}`, "spec.policy", "Required"},
		{"no policy name", `spec: {policy: {policyName: null}}`, "spec.policy.policyName", "Required"},
		{"unknown policy", `spec: {policy: {policyName: Proportional}}`, "spec.policy.policyName",
			`supported values: "priority", "proportional"`},
		{"proportional without block", `spec: {policy: {proportions: null}}`, "spec.policy.proportions",
			"is required when policyName is proportional"},
		{"priority without block", `spec: {policy: {policyName: priority, proportions: null}}`, "spec.policy.priorities",
			"is required when policyName is priority"},
		{"proportional with both blocks", `spec: {policy: {priorities: {targetOrder: [a]}}}`, "spec.policy.priorities",
			"is for policyName priority only"},
		{"priority with both blocks", `spec: {policy: {policyName: priority, priorities: {targetOrder: [a]}}}`, "spec.policy.proportions",
			"is for policyName proportional only"},
		{"no proportions", `spec: {policy: {proportions: {targetProportions: null}}}`, "spec.policy.proportions.targetProportions", "Required"},
		{"empty proportions", `spec: {policy: {proportions: {targetProportions: {a: null, b: null, c: null}}}}`,
			"spec.policy.proportions.targetProportions", "at least 1 properties"},
		{"negative proportion", `spec: {policy: {proportions: {targetProportions: {b: -1}}}}`, "spec.policy.proportions.targetProportions",
			"must not be negative"},
		{"proportion of no target", `spec: {policy: {proportions: {targetProportions: {d: 1}}}}`, "spec.policy.proportions.targetProportions",
			"no target is named d"},
		{"no order", `spec: {policy: {policyName: priority, proportions: null, priorities: {}}}`, "spec.policy.priorities.targetOrder",
			"Required"},
		{"empty order", order(``), "spec.policy.priorities.targetOrder", "at least 1 item"},
		{"order names no target", order(`a, d, e`), "spec.policy.priorities.targetOrder", "no target is named d"},
		{"order names a target twice", order(`a, b, a`), "spec.policy.priorities.targetOrder", "must not name a target twice"},
		{"LaterOnly", `spec: {policy: {relief: LaterOnly}}`, "spec.policy.relief", "LaterOnly is for policyName priority only"},
		{"unknown relief", `spec: {policy: {relief: None}}`, "spec.policy.relief", "supported values"},
		{"unknown rounding", `spec: {policy: {rounding: Up}}`, "spec.policy.rounding", "supported values"},
		{"unknown tie break", `spec: {policy: {tieBreak: Random}}`, "spec.policy.tieBreak", "supported values"},
		{"unknown mode of minimums", `spec: {policy: {minMode: Ceiling}}`, "spec.policy.minMode", "supported values"},
		{"no moves", `spec: {policy: {maxMovesPerMinute: 0}}`, "spec.policy.maxMovesPerMinute", "greater than or equal to 1"},

		{"fallback without timeout", `spec: {policy: {fallback: {stabilizationTime: 5m}}}`, "spec.policy.fallback.startupTimeout", "Required"},
		{"timeout of nothing", `spec: {policy: {fallback: {startupTimeout: 0s}}}`, "spec.policy.fallback.startupTimeout", "must be 1s or more"},
		{"timeout below a second", `spec: {policy: {fallback: {startupTimeout: 999ms}}}`, "spec.policy.fallback.startupTimeout",
			"must be 1s or more"},
		{"negative timeout", `spec: {policy: {fallback: {startupTimeout: -5m}}}`, "spec.policy.fallback.startupTimeout", "should match"},
		{"timeout without unit", `spec: {policy: {fallback: {startupTimeout: "300"}}}`, "spec.policy.fallback.startupTimeout", "should match"},
		{"timeout as a number", `spec: {policy: {fallback: {startupTimeout: 300}}}`, "spec.policy.fallback.startupTimeout",
			"must be of type string"},
		{"timeout that overflows", `spec: {policy: {fallback: {startupTimeout: 9999999999999h}}}`, "spec.policy.fallback.startupTimeout",
			"Invalid value"},
		{"no stabilization", `spec: {policy: {fallback: {startupTimeout: 5m, stabilizationTime: 0s}}}`, "spec.policy.fallback.stabilizationTime",
			"must be 1s or more"},
	} {
		err := c.Create(ctx, changed(t, r.patch), client.DryRunAll)
		if !apierrors.IsInvalid(err) {
			t.Errorf("%s: answered %v, want it refused as invalid", r.name, err)
			continue
		}
		names := func(c metav1.StatusCause) bool { return c.Field == r.field && strings.Contains(c.Message, r.message) }
		var status *apierrors.StatusError
		if !errors.As(err, &status) || !slices.ContainsFunc(status.ErrStatus.Details.Causes, names) {
			t.Errorf("%s: want %q at %s, got\n%v", r.name, r.message, r.field, err)
		}
	}
}

// targets replaces the targets of the valid Balancer, of which a alone has a proportion then.
func targets(list string) string {
	return `spec: {targets: [` + list + `], policy: {proportions: {targetProportions: {b: null, c: null}}}}`
}

// selector adds to the selector of the valid Balancer, expression a single expression.
func selector(parts string) string { return `spec: {selector: {` + parts + `}}` }

func expression(parts string) string { return selector(`matchExpressions: [{` + parts + `}]`) }

// each repeats a text with the numbers from 1 to n, and commas between.
func each(n int, format string) string {
	var parts []string
	for i := range n {
		parts = append(parts, fmt.Sprintf(format, i+1))
	}
	return strings.Join(parts, ", ")
}

func order(list string) string {
	return `spec: {policy: {policyName: priority, proportions: null, priorities: {targetOrder: [` + list + `]}}}`
}

// As many targets as there may be, with names as long as may be, are within the API server's
// budget, under both policies and when something is wrong with the last of them.
func largestBalancer(ctx context.Context, t *testing.T, c client.Client) {
	b := &v1alpha1.Balancer{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: strings.Repeat("b", 253)}}
	b.Spec.Selector = largestSelector()
	order := &v1alpha1.PriorityPolicy{}
	rates := &v1alpha1.ProportionalPolicy{TargetProportions: map[string]int32{}}
	for i := range 100 {
		name := fmt.Sprintf("%063d", i)
		b.Spec.Targets = append(b.Spec.Targets, v1alpha1.BalancerTarget{
			Name: name,
			ScaleTargetRef: v1alpha1.ScaleTargetReference{
				APIVersion: strings.Repeat("g", 124) + "/v1", Kind: strings.Repeat("K", 63), Name: fmt.Sprintf("%0253d", i),
			},
		})
		order.TargetOrder = append(order.TargetOrder, name)
		rates.TargetProportions[name] = 1
	}
	for _, policy := range []v1alpha1.BalancerPolicy{
		{PolicyName: v1alpha1.PriorityPolicyName, Priorities: order},
		{PolicyName: v1alpha1.ProportionalPolicyName, Proportions: rates},
	} {
		b.Spec.Policy = policy
		start := time.Now()
		if err := c.Create(ctx, b.DeepCopy(), client.DryRunAll); err != nil {
			t.Errorf("%s: %v", policy.PolicyName, err)
		}
		t.Logf("%s: accepted in %v", policy.PolicyName, time.Since(start).Round(time.Millisecond))

		broken := b.DeepCopy()
		broken.Spec.Targets[99].Name = "other"
		if err := c.Create(ctx, broken, client.DryRunAll); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "no target is named 000") {
			t.Errorf("%s: a name that is no target's: %v", policy.PolicyName, err)
		}
		broken = b.DeepCopy()
		delete(broken.Spec.Selector.MatchLabels, fmt.Sprintf("%0253d/%063d", 0, 0))
		broken.Spec.Selector.MatchLabels["x/y/z"] = ""
		if err := c.Create(ctx, broken, client.DryRunAll); !apierrors.IsInvalid(err) ||
			!strings.Contains(err.Error(), "x/y/z is not a label key") {
			t.Errorf("%s: a key that is none: %v", policy.PolicyName, err)
		}
		broken = b.DeepCopy()
		broken.Spec.Targets[99].ScaleTargetRef = broken.Spec.Targets[0].ScaleTargetRef
		if err := c.Create(ctx, broken, client.DryRunAll); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "one object twice") {
			t.Errorf("%s: an object twice: %v", policy.PolicyName, err)
		}
	}
}

// largestSelector has as much of everything as there may be.
func largestSelector() (s v1alpha1.LabelSelector) {
	key := func(i int) string { return fmt.Sprintf("%0253d/%063d", i, i) }
	var values []v1alpha1.LabelValue
	s.MatchLabels = map[string]v1alpha1.LabelValue{}
	for i := range 100 {
		values = append(values, v1alpha1.LabelValue(fmt.Sprintf("%063d", i)))
		s.MatchLabels[key(i)] = values[i]
	}
	for i := range 100 {
		s.MatchExpressions = append(s.MatchExpressions, v1alpha1.LabelSelectorRequirement{Key: key(i), Operator: metav1.LabelSelectorOpIn,
			Values: values})
	}
	return s
}

// The only default is the time that ends a fallback: everything else stays as it was written.
func balancerDefaults(ctx context.Context, t *testing.T, c client.Client) {
	o := changed(t, `{metadata: {name: defaults}, spec: {policy: {fallback: {startupTimeout: 2m}}}}`)
	want := o.DeepCopy()
	if err := unstructured.SetNestedField(want.Object, "5m", "spec", "policy", "fallback", "stabilizationTime"); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(ctx, o); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(o.Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	wanted, err := json.Marshal(want.Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(wanted) {
		t.Errorf("stored\n%s\nwant\n%s", got, wanted)
	}
	b := &v1alpha1.Balancer{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), b); err != nil {
		t.Fatal(err)
	}
	if got := b.Spec.Policy.Fallback.StabilizationTime.Duration; got != v1alpha1.DefaultStabilizationTime {
		t.Errorf("stabilization time %v, want %v", got, v1alpha1.DefaultStabilizationTime)
	}
}

// create stores the valid Balancer under a name and with a change.
func create(ctx context.Context, t *testing.T, c client.Client, name, patch string) *v1alpha1.Balancer {
	t.Helper()
	o := changed(t, patch)
	o.SetName(name)
	if err := c.Create(ctx, o); err != nil {
		t.Fatal(err)
	}
	b := &v1alpha1.Balancer{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), b); err != nil {
		t.Fatal(err)
	}
	return b
}

func filledStatus(b *v1alpha1.Balancer) v1alpha1.BalancerStatus {
	since := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Local())
	return v1alpha1.BalancerStatus{
		ObservedGeneration: b.Generation,
		Replicas:           6,
		Running:            3,
		RequestedReplicas:  ptr.To[int32](6),
		Selector:           "app=web",
		Targets: []v1alpha1.BalancerTargetStatus{
			{Name: "a", Desired: 1, Current: 1, Running: 1, Reason: "Max"},
			{Name: "b", Desired: 5, Current: 4, Running: 2, NotStarted: 2, Pending: 3, Reason: "Capacity",
				Message:        "2 pods have not started in time",
				BelowSizeSince: &since, BlockedSince: &since, FineSince: &since, Capacity: ptr.To[int32](2),
				Overwrites: &v1alpha1.ReplicaOverwrites{Count: 3, LastTime: since, LeftAloneUntil: &since, ObservedGeneration: 1}},
		},
		Moves: &v1alpha1.ReplicaMoves{Count: 3, LastTime: since},
		Conditions: []metav1.Condition{{
			Type: v1alpha1.ConditionBalanced, Status: metav1.ConditionFalse, ObservedGeneration: b.Generation,
			LastTransitionTime: since, Reason: "Moving", Message: "b lacks 1 replica",
		}},
	}
}

// Spec and status are written apart.
func balancerStatus(ctx context.Context, t *testing.T, c client.Client) {
	b := create(ctx, t, c, "status", `{}`)
	status := filledStatus(b)
	b.Status = status
	b.Spec.Replicas = ptr.To[int32](7)
	if err := c.Status().Update(ctx, b); err != nil {
		t.Fatal(err)
	}
	if b.Generation != 1 || *b.Spec.Replicas != 6 || !sameJSON(t, b.Status, status) {
		t.Errorf("after a write of the status: generation %d, replicas %d, %+v", b.Generation, *b.Spec.Replicas, b.Status)
	}
	b.Spec.Replicas = ptr.To[int32](7)
	b.Status = v1alpha1.BalancerStatus{}
	if err := c.Update(ctx, b); err != nil {
		t.Fatal(err)
	}
	if b.Generation != 2 || *b.Spec.Replicas != 7 || !sameJSON(t, b.Status, status) {
		t.Errorf("after a write of the spec: generation %d, replicas %d, %+v", b.Generation, *b.Spec.Replicas, b.Status)
	}
	b.Status.Targets[1].Name = "a"
	if err := c.Status().Update(ctx, b); !apierrors.IsInvalid(err) {
		t.Errorf("two entries for one target: %v", err)
	}
}

func sameJSON(t *testing.T, a, b any) bool {
	t.Helper()
	left, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	right, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(left) == string(right)
}
