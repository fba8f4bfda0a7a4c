// Package page serves the state of a program at one address: as a page for human readers, in a
// browser or a terminal, and as JSON for programs.
//
// It knows neither the meaning of the state nor where the page is served, and links no protocol, so
// that any program may use it.
package page

import (
	"bytes"
	"cmp"
	_ "embed" // the common beginning of all pages
	"encoding/json"
	"fmt"
	"html/template"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/evenkeel/evenkeel/nodegroupset"
)

//go:embed head.html
var head string

// The formats, values of the parameter format.
const (
	asHTML = "html"
	asJSON = "json"
)

// Parse reads the template of a page. It may use the template "head", which is the document up to
// its title, the functions at, ago, difference and names, and the given functions.
func Parse(source string, functions template.FuncMap) (*template.Template, error) {
	t := template.New("page").Funcs(template.FuncMap{"at": at, "ago": ago, "difference": difference, "names": names})
	t, err := t.Funcs(functions).Parse(head)
	if err != nil {
		return nil, err
	}
	return t.Parse(source)
}

// Handler shows the state at the time of a request: as JSON if the parameter format is json or the
// client prefers application/json, and with the template otherwise. All values are escaped.
func Handler[State any](t *template.Template, state func() State) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Cache-Control", "no-store")
		header.Set("Vary", "Accept")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Content-Security-Policy",
			"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
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
		// Nothing is sent before the page is complete, so that a failure has an error status.
		text, kind, err := render(t, state(), format)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		header.Set("Content-Type", kind)
		header.Set("Content-Length", strconv.Itoa(len(text)))
		_, _ = w.Write(text) // the client may have disconnected
	})
}

func render(t *template.Template, state any, format string) (text []byte, kind string, err error) {
	if format == asJSON {
		text, err := json.MarshalIndent(state, "", "  ")
		return append(text, '\n'), "application/json", err
	}
	var out bytes.Buffer
	err = t.Execute(&out, state)
	return out.Bytes(), "text/html; charset=utf-8", err
}

// preferred returns the format a client prefers by its Accept headers; HTML if it has no
// preference.
func preferred(accept []string) string {
	best := map[string]float64{}
	for part := range strings.SplitSeq(strings.Join(accept, ","), ",") {
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

// at formats a time; a zero time is an empty string.
func at(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

// ago formats how long a time is before another.
func ago(t, now time.Time) string {
	return duration.HumanDuration(max(0, now.Sub(t))) + " ago"
}

func names(all []string) string { return strings.Join(all, ", ") }

// difference describes how two groups differ.
func difference(d nodegroupset.Difference) string {
	side := func(value *string) string {
		switch {
		case value == nil:
			return "missing"
		case *value == "":
			return `""`
		}
		return *value
	}
	text := fmt.Sprintf("%s: %s and %s", d.Field, side(d.Left), side(d.Right))
	if d.Ratio != "" {
		return fmt.Sprintf("%s differ by %s, the limit is %s", text, d.Ratio, d.Limit)
	}
	return text
}
