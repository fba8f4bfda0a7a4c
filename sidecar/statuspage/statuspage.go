// Package statuspage shows the status of a sidecar: a page for people, in a
// browser or a terminal, and JSON for programs.
//
// It only shows what it is given, and knows neither how the sidecar decides nor
// where the page is served.
package statuspage

import (
	"cmp"
	_ "embed" // of the page
	"html/template"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/internal/page"
	"github.com/evenkeel/evenkeel/steering"
)

//go:embed page.html
var text string

var source = template.Must(page.Parse(text, template.FuncMap{"sets": sets, "uneven": uneven}))

// New returns a handler that shows the status at the time of the request: as JSON
// where the parameter format is json or the client prefers application/json, as
// HTML otherwise. Whatever the status holds is escaped.
func New(status func() steering.Status) http.Handler {
	return page.Handler(source, func() steering.Status {
		s := status()
		// Programs need not tell an empty list from none.
		s.Groups = append([]steering.GroupStatus{}, s.Groups...)
		s.Sets = append([][]string{}, s.Sets...)
		s.Decisions = append([]steering.Decision{}, s.Decisions...)
		return s
	})
}

// set is a set of groups as a part of the table.
type set struct {
	Name   string // empty for groups that are in no set
	Groups []steering.GroupStatus
	Size   int
}

// sets sorts groups and sets in natural order. Groups in no set come last.
func sets(groups []steering.GroupStatus) []set {
	groups = slices.Clone(groups)
	slices.SortFunc(groups, func(a, b steering.GroupStatus) int { return natural(a.Name, b.Name) })
	var all []set
	at := map[string]int{}
	for _, g := range groups {
		i, known := at[g.Set]
		if !known {
			i, at[g.Set] = len(all), len(all)
			all = append(all, set{Name: g.Set})
		}
		all[i].Groups = append(all[i].Groups, g)
		all[i].Size += g.Size
	}
	if i, known := at[""]; known {
		all = append(slices.Delete(slices.Clone(all), i, i+1), all[i])
	}
	return all
}

// uneven sorts sets and their members in natural order.
func uneven(all []steering.UnevenStatus) []steering.UnevenStatus {
	all = slices.Clone(all)
	for i := range all {
		all[i].Members = slices.Clone(all[i].Members)
		slices.SortFunc(all[i].Members, func(a, b steering.PlanMember) int { return natural(a.Name, b.Name) })
	}
	slices.SortFunc(all, func(a, b steering.UnevenStatus) int { return natural(a.Set, b.Set) })
	return all
}

var number = regexp.MustCompile("[0-9]+")

// natural compares names, and numbers in them by their values: ng-2 comes before ng-10.
func natural(a, b string) int {
	sortable := func(name string) string {
		return number.ReplaceAllStringFunc(name, func(digits string) string {
			digits = strings.TrimLeft(digits, "0")
			return strings.Repeat("0", max(0, 64-len(digits))) + digits
		})
	}
	return cmp.Or(strings.Compare(sortable(a), sortable(b)), strings.Compare(a, b))
}
