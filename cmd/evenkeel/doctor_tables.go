package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/cmd/evenkeel/internal/printing"
	"github.com/evenkeel/evenkeel/internal/doctor"
)

// shownSets is how many sets a table shows, those that are least even; a wide one shows all, and groups.
const shownSets = 10

// diagnosisParts are the answer, and below it what it rests on.
func diagnosisParts(wide bool, r *doctor.Result) []printing.Part {
	parts := []printing.Part{printing.Note(r.Answer + ".")}
	parts = append(parts, printing.GridOf(
		printing.Columns("AUTOSCALER", "VERSION", "PROVIDER", "BALANCING", "EXPANDER", "", "STATUS", "IMAGE"), r.Autoscalers,
		func(a *doctor.AutoscalerResult) []any {
			name := strings.ToLower(a.Kind) + "/" + a.Name
			if a.Name == "" {
				return []any{strings.ToLower(a.Kind), "", "", "", "", a.StatusTime, ""}
			}
			return []any{name, a.Version, a.Provider, a.Balancing, a.Expander, a.StatusTime, a.Image}
		}))
	var shared []doctor.SetResult
	for _, set := range r.Sets {
		if wide || len(set.Groups) > 1 {
			shared = append(shared, set)
		}
	}
	more := len(shared) - shownSets
	if more > 0 && !wide {
		slices.SortStableFunc(shared, func(a, b doctor.SetResult) int { return cmp.Compare(b.Apart, a.Apart) })
		shared = shared[:shownSets]
	}
	parts = append(parts, printing.GridOf(printing.Columns("SET", "NODES", "APART", "CA-SIMILAR"), shared, func(s *doctor.SetResult) []any {
		return []any{strings.Join(s.Groups, ","), s.Nodes, s.Apart, s.Similar}
	}))
	if more > 0 && !wide {
		parts = append(parts, printing.Note("Further sets are as even as these or more; -o wide shows all."))
	}
	if wide {
		parts = append(parts, printing.GridOf(printing.Columns("GROUP", "SIZE", "READY", "MIN", "MAX", "STATE", "ZONES", "CLOUD-NAME"), r.Groups,
			func(g *doctor.GroupResult) []any {
				return []any{g.Name, g.Size, g.Ready, g.Min, g.Max, g.State, strings.Join(g.Zones, ","), g.Cloud}
			}))
	}
	parts = append(parts, findingParts(r.Findings)...)
	parts = append(parts, printing.GridOf(printing.Columns("SIMULATED", "NODES", "APART", "RUNNING", "PENDING", "P99-WAIT"), r.Simulated,
		func(s *doctor.Simulation) []any {
			return []any{s.Autoscaler, s.Nodes, s.Apart, s.Running, s.Pending, s.Wait}
		}))
	parts = append(parts, recommendationParts(&r.Recommendation)...)
	return append(parts, notes(r.Notes)...)
}

// findingParts are the findings: a table, and below it what is wrong and what helps in full.
func findingParts(findings []doctor.Finding) []printing.Part {
	g := printing.NewGrid("FINDING", "SEVERITY", "APART", "PODS", "FITS", "", "GROUPS")
	var texts []printing.Part
	for i := range findings {
		f := &findings[i]
		var apart, pods *int
		if f.Apart > 0 {
			apart = &f.Apart
		}
		if f.Pods > 0 {
			pods = &f.Pods
		}
		g.Add(string(f.Reason), string(f.Severity), apart, pods, string(f.Way), strings.Join(f.Groups, ","))
		text := fmt.Sprintf("%s: %s. Remedy: %s", f.Reason, f.Message, f.Remedy)
		if len(f.Flags) > 0 {
			text += ": " + strings.Join(f.Flags, " ")
		}
		texts = append(texts, printing.Note(text))
	}
	return append([]printing.Part{g}, texts...)
}

// recommendationParts say what to do.
func recommendationParts(r *doctor.Recommendation) []printing.Part {
	g := printing.NewGrid("RECOMMENDED", "DO", "FLAG")
	for _, flag := range r.Flags {
		g.Add(string(r.Way), "set", flag)
	}
	for _, flag := range r.Without {
		g.Add(string(r.Way), "remove", flag)
	}
	parts := []printing.Part{g}
	if r.Command != "" {
		parts = append(parts, printing.Note(r.Command))
	}
	return parts
}
