package clusterautoscaler

import (
	_ "embed" // of the page
	"html/template"
	"net/http"

	"github.com/evenkeel/evenkeel/internal/page"
)

//go:embed page.html
var pageSource string

var pageTemplate = template.Must(page.Parse(pageSource, nil))

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
	page.Handler(pageTemplate, func() pageStatus { return b.journal.remembers().status(b.clock.Now().UTC()) }).ServeHTTP(w, r)
}
