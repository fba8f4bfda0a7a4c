package members

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"
)

// A web page, such as the login or an error page of a proxy, is not taken for an API server, and is named.
func TestWebPageIsNoCluster(t *testing.T) {
	inBubble(t, func(t *testing.T, w *hostHarness) {
		s := w.server("a")
		s.set(func(s *server) { s.page = true })
		w.after(2 * DefaultOfflineAfter)
		if c := w.get("a").Status.Conditions[0]; c.Status == "True" || !strings.Contains(c.Message, "a web page answers") {
			t.Errorf("%+v", c)
		}
	})
}

// What is wrong on the way to a cluster is said in words of its own.
func TestExplainNamesTheWay(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer proxy.Close()
	at, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{}
	o.setDefaults()
	c, err := httpClient(&rest.Config{Proxy: http.ProxyURL(at)}, &o, func(t *http.Transport) http.RoundTripper { return t })
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "https://a.example.com/readyz", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, refused := c.Do(request)
	if refused == nil {
		response.Body.Close()
	}
	for says, err := range map[string]error{
		"the proxy in the kubeconfig (proxy-url) refuses": refused,
		"the proxy in the kubeconfig (proxy-url) cannot": &url.Error{Op: "Get",
			Err: &net.OpError{Op: "proxyconnect", Err: syscall.ECONNREFUSED}},
		"is not for its address: join with an address": fmt.Errorf("tls: %w", x509.HostnameError{Certificate: &x509.Certificate{}, Host: "a"}),
		"nothing listens at the address":               &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED},
	} {
		if got := Explain(err); !strings.Contains(got, says) {
			t.Errorf("%v: %s, want %s", err, got, says)
		}
	}
}
