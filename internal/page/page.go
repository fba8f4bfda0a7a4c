// Package page serves the state of a server at one address: as a page for people that updates by
// itself, as JSON for programs, and as a stream of server-sent events. All servers have the same page:
// it shows the JSON, section by section, and nothing that the JSON does not have.
//
// It knows neither how a server decides nor where the page is served, and links no protocol, so that
// any program may use it.
package page

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed" // of the page
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// MaxDecisions is how many decisions a page shows at the most.
const MaxDecisions = 100

// The formats, values of the parameter format.
const (
	asHTML   = "html"
	asJSON   = "json"
	asEvents = "events"
)

var (
	//go:embed page.html
	text string
	//go:embed page.css
	style string
	//go:embed page.js
	script string

	source = template.Must(template.New("page").Funcs(functions).Parse(text))
	policy = "default-src 'none'; style-src '" + hash(style) + "'; script-src '" + hash(script) +
		"'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

// hash is the source of an inline style or script in a Content-Security-Policy.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// Common is what the states of all servers begin with.
type Common struct {
	Server string   `json:"server"`
	Checks []Check  `json:"checks"` // those of /readyz, by name; empty for a server without it
	Held   []Held   `json:"held"`   // what does not go on
	Advice []Advice `json:"advice"` // what to do about it
}

// Check is the result of a check of /readyz.
type Check struct {
	Name    string `json:"name"`
	Problem string `json:"problem,omitempty"`
}

// Held is what is held back, and why.
type Held struct {
	What  string    `json:"what"`
	Why   string    `json:"why"`
	Since time.Time `json:"since,omitzero"`
}

// Advice is an entry of the runbook that applies now.
type Advice struct {
	Runbook string `json:"runbook"`
	URL     string `json:"url"`
	Why     string `json:"why"`
}

// Advise is the advice to follow an entry of the runbook.
func Advise(entry, why string) Advice {
	return Advice{entry, "https://github.com/evenkeel/evenkeel/blob/main/docs/runbook.md#" + strings.ToLower(entry), why}
}

// Problems are those of checks, as one text; empty if all passed.
func Problems(checks []Check) string {
	var all []string
	for _, c := range checks {
		if c.Problem != "" {
			all = append(all, c.Problem)
		}
	}
	return strings.Join(all, "; ")
}

// Page is the page of a server. It is safe for concurrent use.
type Page struct {
	state   func() any
	clock   clock.WithTicker
	streams chan struct{} // has one element per stream
	ended   chan struct{}
	end     sync.Once

	mu    sync.Mutex // held while the state is read
	shown shown
}

// New returns the page of a state, which is asked for when somebody looks: at most once a second for all
// streams together.
func New(state func() any) *Page {
	return &Page{state: state, clock: clock.RealClock{}, streams: make(chan struct{}, MaxStreams), ended: make(chan struct{})}
}

// ServeHTTP shows the state: as the parameter format says (html, json or events), or else as the client
// prefers by its header Accept. All values are escaped.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Vary", "Accept")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Content-Security-Policy", policy)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "the status can only be read", http.StatusMethodNotAllowed)
		return
	}
	format := cmp.Or(r.URL.Query().Get("format"), preferred(r.Header.Values("Accept")))
	var body []byte
	var err error
	switch format {
	case asHTML:
		body, err = p.html("page")
		header.Set("Content-Type", "text/html; charset=utf-8")
	case asJSON:
		body, err = json.MarshalIndent(p.state(), "", "  ")
		body = append(body, '\n')
		header.Set("Content-Type", "application/json")
	case asEvents:
		p.stream(w, r)
		return
	default:
		http.Error(w, fmt.Sprintf("format %q: not %s, %s or %s", format, asHTML, asJSON, asEvents), http.StatusBadRequest)
		return
	}
	// Nothing is sent before the page is complete, so that a failure has an error status.
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	header.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // the client may have disconnected
}

func (p *Page) html(part string) ([]byte, error) {
	state, err := json.Marshal(p.state())
	if err != nil {
		return nil, err
	}
	return render(state, part)
}

// render prints a part of the page: "page" or "main". It is printed from JSON, so that it has no fact
// that the JSON lacks.
func render(state []byte, part string) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(state))
	decoder.UseNumber()
	var values map[string]any
	if err := decoder.Decode(&values); err != nil {
		return nil, err
	}
	values, _ = plain(values).(map[string]any)
	values["style"], values["script"] = template.CSS(style), template.JS(script) //nolint:gosec // files of this package
	var out bytes.Buffer
	err := source.ExecuteTemplate(&out, part, values)
	return out.Bytes(), err
}

// plain makes integers of the numbers in a decoded value, which are none where they are 0.
func plain(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, of := range v {
			v[key] = plain(of)
		}
	case []any:
		for i, of := range v {
			v[i] = plain(of)
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		return v.String()
	}
	return value
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
	switch {
	case best["text/event-stream"] > max(html, best["application/json"]):
		return asEvents
	case best["application/json"] > html:
		return asJSON
	}
	return asHTML
}
