package webhooks

import (
	"net/http"
	"sync/atomic"
)

// WhenReady returns handlers by the patterns of http.ServeMux, from handlers by path. They answer only
// POST, and nothing until ready has once returned nil: the API server then does what the failure policy
// says.
func WhenReady(handlers map[string]http.Handler, ready func() error) map[string]http.Handler {
	var begun atomic.Bool
	out := map[string]http.Handler{}
	for path, handler := range handlers {
		out["POST "+path] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !begun.Load() {
				if err := ready(); err != nil {
					http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
					return
				}
				begun.Store(true)
			}
			handler.ServeHTTP(w, r)
		})
	}
	return out
}
