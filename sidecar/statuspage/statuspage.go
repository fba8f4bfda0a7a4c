// Package statuspage shows the status of a sidecar: a page for people, in a
// browser or a terminal, and JSON for programs.
//
// It only shows what it is given, and knows neither how the sidecar decides nor
// where the page is served.
package statuspage

import (
	"bytes"
	"cmp"
	_ "embed" // of the page
	"encoding/json"
	"fmt"
	"html/template"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/sidecar"
)

//go:embed page.html
var source string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"ago": ago, "at": at, "difference": difference, "names": names, "sets": sets,
}).Parse(source))

// Formats, by the parameter format.
const (
	asHTML = "html"
	asJSON = "json"
)

// New returns a handler that shows the status at the time of the request: as JSON
// where the parameter format is json or the client prefers application/json, as
// HTML otherwise. Whatever the status holds is escaped.
func New(status func() sidecar.Status) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Cache-Control", "no-store")
		header.Set("Vary", "Accept")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			header.Set("Allow", "GET, HEAD")
			http.Error(w, "the status can only be read", http.StatusMethodNotAllowed)
			return
		}
		format := cmp.Or(r.URL.Query().Get("format"), preferred(r.Header.Values("Accept")))
		if format != asHTML && format != asJSON {
			http.Error(w, fmt.Sprintf("format %q: not %s or %s", format, asHTML, asJSON), http.StatusBadRequest)
			return
		}
		// Nothing is sent before all of it is there, so a failure shows as one.
		text, kind, err := render(status(), format)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		header.Set("Content-Type", kind)
		header.Set("Content-Length", strconv.Itoa(len(text)))
		_, _ = w.Write(text) // the client may have left
	})
}

func render(status sidecar.Status, format string) (text []byte, kind string, err error) {
	if format == asJSON {
		// Programs need not tell an empty list from none.
		status.Groups = append([]sidecar.GroupStatus{}, status.Groups...)
		status.Sets = append([][]string{}, status.Sets...)
		status.Decisions = append([]sidecar.Decision{}, status.Decisions...)
		text, err := json.MarshalIndent(status, "", "  ")
		return append(text, '\n'), "application/json", err
	}
	var out bytes.Buffer
	err = page.Execute(&out, status)
	return out.Bytes(), "text/html; charset=utf-8", err
}

// preferred tells the format a client prefers by its Accept headers; HTML where it
// has no preference.
func preferred(accept []string) string {
	best := map[string]float64{}
	for _, part := range strings.Split(strings.Join(accept, ","), ",") {
		kind, parameters, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		quality := 1.0
		if q, err := strconv.ParseFloat(parameters["q"], 64); err == nil {
			quality = q
		}
		best[kind] = max(best[kind], quality)
	}
	html, named := best["text/html"]
	if !named {
		html = max(best["text/*"], best["*/*"])
	}
	if best["application/json"] > html {
		return asJSON
	}
	return asHTML
}

// set is a set of groups as a part of the table.
type set struct {
	Name   string // empty for groups that are in no set
	Groups []sidecar.GroupStatus
	Size   int
}

// sets sorts groups by set and name. Groups in no set come last.
func sets(groups []sidecar.GroupStatus) []set {
	groups = slices.Clone(groups)
	slices.SortStableFunc(groups, func(a, b sidecar.GroupStatus) int {
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

// at writes a time; nothing for none.
func at(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

// ago tells how long a time is before another.
func ago(t, now time.Time) string {
	return duration.HumanDuration(max(0, now.Sub(t))) + " ago"
}

func names(all []string) string { return strings.Join(all, ", ") }

// difference says in what two groups differ.
func difference(d nodegroupset.Difference) string {
	side := func(value string, has bool) string {
		switch {
		case !has:
			return "missing"
		case value == "":
			return `""`
		}
		return value
	}
	text := fmt.Sprintf("%s: %s and %s", d.Field, side(d.Left, d.HasLeft), side(d.Right, d.HasRight))
	if d.Ratio != "" {
		return fmt.Sprintf("%s differ by %s, the limit is %s", text, d.Ratio, d.Limit)
	}
	return text
}
