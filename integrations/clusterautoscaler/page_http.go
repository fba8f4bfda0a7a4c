package clusterautoscaler

import (
	"bytes"
	"cmp"
	_ "embed" // of the page
	"encoding/json"
	"fmt"
	"html/template"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/nodegroupset"

	"k8s.io/apimachinery/pkg/util/duration"
)

//go:embed page.html
var pageSource string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"at": at, "ago": ago, "difference": difference, "names": func(all []string) string { return strings.Join(all, ", ") },
}).Parse(pageSource))

// Formats, by the parameter format.
const (
	asHTML = "html"
	asJSON = "json"
)

// Handler serves the page of the linked balancer, which may be linked after the call. Where none is, the answer is 404.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b := linked.Load(); b != nil {
			b.ServeHTTP(w, r)
			return
		}
		http.Error(w, "evenkeel balances nothing here: --balance-similar-node-groups is off", http.StatusNotFound)
	})
}

// ServeHTTP shows which node groups are similar and how large they are, why others are not and what would join them, and what was
// decided lately: as JSON where the parameter format is json or the client prefers application/json, as a page for people
// otherwise. The page has no scripts, and whatever it shows is escaped.
func (b *Balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Vary", "Accept")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "this can only be read", http.StatusMethodNotAllowed)
		return
	}
	format := cmp.Or(r.URL.Query().Get("format"), preferred(r.Header.Values("Accept")))
	if format != asHTML && format != asJSON {
		http.Error(w, fmt.Sprintf("format %q: not %s or %s", format, asHTML, asJSON), http.StatusBadRequest)
		return
	}
	// Nothing is sent before all of it is there, so a failure shows as one.
	text, kind, err := render(b.journal.remembers().status(b.clock.Now().UTC()), format)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	header.Set("Content-Type", kind)
	header.Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write(text) // the client may have left
}

func render(s pageStatus, format string) (text []byte, kind string, err error) {
	if format == asJSON {
		text, err := json.MarshalIndent(s, "", "  ")
		return append(text, '\n'), "application/json", err
	}
	var out bytes.Buffer
	err = pageTemplate.Execute(&out, s)
	return out.Bytes(), "text/html; charset=utf-8", err
}

// preferred tells the format a client prefers by its Accept headers; HTML where it has no preference.
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

// at writes a time.
func at(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// ago tells how long a time is before another.
func ago(t, now time.Time) string { return duration.HumanDuration(max(0, now.Sub(t))) + " ago" }

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
		text += fmt.Sprintf(" differ by %s, the limit is %s", d.Ratio, d.Limit)
	}
	return text
}
