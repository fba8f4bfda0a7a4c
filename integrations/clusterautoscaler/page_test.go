package clusterautoscaler

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHandlerServesTheLinkedBalancer(t *testing.T) {
	before := current.Swap(nil)
	t.Cleanup(func() { current.Store(before) })
	ask := func() *httptest.ResponseRecorder {
		response := httptest.NewRecorder()
		Handler().ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/evenkeel", http.NoBody))
		return response
	}
	if response := ask(); response.Code != http.StatusNotFound || !strings.Contains(response.Body.String(), "--balance-similar-node-groups") {
		t.Errorf("without a balancer: %d %s", response.Code, response.Body)
	}
	current.Store(balancer(t))
	if response := ask(); response.Code != http.StatusOK || !strings.Contains(response.Body.String(), "evenkeel in Cluster Autoscaler") {
		t.Errorf("with one: %d %s", response.Code, response.Body)
	}
}
