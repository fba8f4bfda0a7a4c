package linked

import (
	_ "embed" // of the page
	"html/template"
	"net/http"

	"github.com/evenkeel/evenkeel/internal/page"
)

//go:embed page.html
var pageSource string

var pageTemplate = template.Must(page.Parse(pageSource, nil))

// ServeHTTP shows which node groups are similar and how large they are, why others are not and what
// would join them, and what was decided lately: as JSON where the parameter format is json or the
// client prefers application/json, as a page for people otherwise. The page has no scripts, and
// whatever it shows is escaped.
func (j *Journal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	page.Handler(pageTemplate, func() pageStatus { return j.remembers().status(j.clock.Now().UTC()) }).ServeHTTP(w, r)
}
