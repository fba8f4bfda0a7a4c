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
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/internal/page"
	"github.com/evenkeel/evenkeel/steering"
)

//go:embed page.html
var text string

var source = template.Must(page.Parse(text, template.FuncMap{"sets": sets}))

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

// sets sorts groups by set and name. Groups in no set come last.
func sets(groups []steering.GroupStatus) []set {
	groups = slices.Clone(groups)
	slices.SortStableFunc(groups, func(a, b steering.GroupStatus) int {
		if (a.Set == "") != (b.Set == "") {
			return strings.Compare(b.Set, a.Set)
		}
		return cmp.Or(strings.Compare(a.Set, b.Set), strings.Compare(a.Name, b.Name))
	})
	var all []set
	for _, g := range groups {
		if len(all) == 0 || all[len(all)-1].Name != g.Set {
			all = append(all, set{Name: g.Set})
		}
		last := &all[len(all)-1]
		last.Groups = append(last.Groups, g)
		last.Size += g.Size
	}
	return all
}
