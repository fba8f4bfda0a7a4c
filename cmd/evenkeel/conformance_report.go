package main

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider/conformance"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc/wirerules"
	"github.com/evenkeel/evenkeel/cmd/evenkeel/internal/printing"
)

// conformanceRule is a rule for servers, whether about the contract or about the wire.
type conformanceRule struct {
	name, about string
	reach       conformance.Reach
	check       func(context.Context, conformance.Harness, grpc.ClientConnInterface) conformance.Result
}

// conformanceRules are all rules for servers, in the order they are checked.
func conformanceRules() []conformanceRule {
	var all []conformanceRule
	for _, rule := range conformance.Rules() {
		if rule.Reach == conformance.InProcess {
			continue
		}
		all = append(all, conformanceRule{rule.Name, rule.About, rule.Reach,
			func(ctx context.Context, h conformance.Harness, _ grpc.ClientConnInterface) conformance.Result {
				return rule.Check(ctx, h)
			}})
	}
	for _, rule := range wirerules.Rules() {
		all = append(all, conformanceRule{rule.Name, rule.About, rule.Reach,
			func(ctx context.Context, _ conformance.Harness, conn grpc.ClientConnInterface) conformance.Result {
				return rule.Check(ctx, conn)
			}})
	}
	return all
}

// conformanceDocsTable is a markdown table of all rules for servers.
func conformanceDocsTable() string {
	var b strings.Builder
	b.WriteString("| Rule | Changes sizes | What is required |\n|---|---|---|\n")
	for _, rule := range conformanceRules() {
		changes := ""
		if rule.reach == conformance.Changes {
			changes = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", rule.name, changes, rule.about)
	}
	return b.String()
}

// conformanceReport is the result of checking a server.
type conformanceReport struct {
	APIVersion string              `json:"apiVersion"`
	Kind       string              `json:"kind"`
	Address    string              `json:"address"`
	Summary    conformanceSummary  `json:"summary"`
	Rules      []conformanceResult `json:"rules"`
}

// conformanceSummary counts rules.
type conformanceSummary struct {
	Passed  int `json:"passed"`
	Warned  int `json:"warned"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
}

// conformanceResult is the result of one rule.
type conformanceResult struct {
	Rule   string              `json:"rule"`
	About  string              `json:"about"`
	Result conformance.Outcome `json:"result"`
	Reason string              `json:"reason,omitempty"`
}

func newConformanceReport(address string) *conformanceReport {
	return &conformanceReport{APIVersion: v1alpha1.APIVersion, Kind: "ConformanceReport", Address: address}
}

func (r *conformanceReport) add(rule conformanceRule, result conformance.Result) {
	r.Rules = append(r.Rules, conformanceResult{rule.name, rule.about, result.Outcome, result.Reason})
	switch result.Outcome {
	case conformance.Passed:
		r.Summary.Passed++
	case conformance.Warned:
		r.Summary.Warned++
	case conformance.Failed:
		r.Summary.Failed++
	case conformance.Skipped:
		r.Summary.Skipped++
	}
}

func (r *conformanceReport) print(p *printing.Printer) error {
	rules := printing.GridOf(printing.Columns("RULE", "RESULT", "REASON", "", "REQUIRED"), r.Rules, func(rule *conformanceResult) []any {
		return []any{rule.Rule, rule.Result, rule.Reason, rule.About}
	})
	s := r.Summary
	counts := fmt.Sprintf("%d rules: %d passed, %d warned, %d failed, %d skipped", len(r.Rules), s.Passed, s.Warned, s.Failed, s.Skipped)
	if s.Failed > 0 {
		return p.Result(r, rules, printing.Warning(counts))
	}
	return p.Result(r, rules, printing.Note(counts))
}
