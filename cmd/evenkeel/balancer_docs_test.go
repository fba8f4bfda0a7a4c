package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/balancer"
)

const balancerPage = "docs/balancer.md"

// TestDocumentedReasons: docs/balancer.md names every reason that a condition, an event or a target
// of a Balancer can have.
func TestDocumentedReasons(t *testing.T) {
	inRoot(t)
	text := readPage(t, balancerPage).prose()
	reasons := []string{
		string(apportion.ReasonCapacity), string(apportion.ReasonMax), string(apportion.ReasonMin),
		string(apportion.ReasonSticky), string(apportion.ReasonOrder), string(apportion.ReasonWeight),
	}
	for i, r := range reasons {
		reasons[i] = strings.ToUpper(r[:1]) + r[1:]
	}
	for _, folder := range []string{"balancer", "balancer/reconcile"} {
		reasons = append(reasons, reasonsOf(t, folder)...)
	}
	if len(reasons) < 25 {
		t.Errorf("only %d reasons were found: %v", len(reasons), reasons)
	}
	for _, reason := range reasons {
		if !strings.Contains(text, "`"+reason+"`") {
			t.Errorf("%s does not name the reason %s", balancerPage, reason)
		}
	}
}

// reasonsOf returns the values of the constants of a package that are reasons, by their names.
func reasonsOf(t *testing.T, folder string) []string {
	files, err := filepath.Glob(folder + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`^(Event|Because|because|Reason)[A-Z]`)
	var values []string
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for node := range ast.Preorder(tree) {
			spec, ok := node.(*ast.ValueSpec)
			if !ok || !named.MatchString(spec.Names[0].Name) || len(spec.Values) != 1 {
				continue
			}
			literal, ok := spec.Values[0].(*ast.BasicLit)
			if !ok {
				continue
			}
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, value)
		}
	}
	return values
}

// TestDocumentedShares: the table of examples in docs/balancer.md says what the controller would
// decide.
func TestDocumentedShares(t *testing.T) {
	inRoot(t)
	row := regexp.MustCompile(`^\| (priority|proportional)( [A-Za-z]+)? \| (\d+) \| ([^|]+) \| ([^|]+) \|`)
	rows := 0
	for _, line := range readPage(t, balancerPage).lines {
		cells := row.FindStringSubmatch(line)
		if cells == nil {
			continue
		}
		rows++
		if got := shared(t, cells[1], strings.TrimSpace(cells[2]), cells[3], cells[4]); got != cells[5] {
			t.Errorf("%s\nis %s", line, got)
		}
	}
	if rows < 10 {
		t.Errorf("only %d examples were found", rows)
	}
}

// shared is what the targets of a Balancer are to have. A target is written as its name, its rate
// if it has one, and its bounds: "a 70 min 1 max 8".
func shared(t *testing.T, policy, option, replicas, targets string) string {
	in := balancer.Input{Key: "default/web", Spec: v1alpha1.BalancerSpec{
		Replicas: number(t, replicas), Selector: v1alpha1.LabelSelector{MatchLabels: map[string]v1alpha1.LabelValue{"app": "web"}},
		Policy: v1alpha1.BalancerPolicy{PolicyName: v1alpha1.BalancerPolicyName(policy)},
	}}
	switch option {
	case "":
	case string(v1alpha1.MinAdditive):
		in.Spec.Policy.MinMode = v1alpha1.MinAdditive
	default:
		in.Spec.Policy.Rounding = v1alpha1.Rounding(option)
	}
	order, rates := &v1alpha1.PriorityPolicy{}, &v1alpha1.ProportionalPolicy{TargetProportions: map[string]int32{}}
	for _, text := range strings.Split(targets, ", ") {
		words := strings.Fields(text)
		target := v1alpha1.BalancerTarget{Name: words[0], ScaleTargetRef: v1alpha1.ScaleTargetReference{Kind: "Deployment", Name: words[0]}}
		if words = words[1:]; len(words)%2 == 1 {
			rates.TargetProportions[target.Name] = *number(t, words[0])
			words = words[1:]
		}
		for ; len(words) > 0; words = words[2:] {
			switch words[0] {
			case "min":
				target.MinReplicas = number(t, words[1])
			case "max":
				target.MaxReplicas = number(t, words[1])
			}
		}
		order.TargetOrder = append(order.TargetOrder, target.Name)
		in.Spec.Targets = append(in.Spec.Targets, target)
		in.Targets = append(in.Targets, balancer.TargetObservation{Name: target.Name})
	}
	if policy == string(v1alpha1.PriorityPolicyName) {
		in.Spec.Policy.Priorities = order
	} else {
		in.Spec.Policy.Proportions = rates
	}
	if errs := balancer.Validate(in.Key, &in.Spec); len(errs) > 0 {
		return errs.ToAggregate().Error()
	}
	decision, err := balancer.Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	var sizes []string
	for _, target := range decision.Status.Targets {
		sizes = append(sizes, fmt.Sprint(target.Desired))
	}
	return strings.Join(sizes, ", ")
}

func number(t *testing.T, text string) *int32 {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return new(int32(n))
}
