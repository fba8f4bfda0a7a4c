package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/internal/serving"
)

// parsePages parses the flags of pages and the one beside them.
func parsePages(t *testing.T, args string) (o *pageFlags, plaintext bool) {
	t.Helper()
	o = &pageFlags{}
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.addTo(f, "127.0.0.1:0", "/metrics")
	f.BoolVar(&plaintext, "allow-plaintext", false, "")
	if err := f.Parse(strings.Fields(args)); err != nil {
		t.Fatal(err)
	}
	return o, plaintext
}

// Metrics are for everybody on loopback only, unless the operator wants otherwise.
func TestMetricsAreSecureByDefault(t *testing.T) {
	for args, want := range map[string]bool{
		"":                                          false,
		"--metrics-address=localhost:0":             false,
		"--metrics-address=[::1]:0":                 false,
		"--metrics-address=:8443":                   true,
		"--metrics-address=0.0.0.0:8443":            true,
		"--metrics-address=10.0.0.1:8443":           true,
		"--metrics-address=host.example:8443":       true,
		"--metrics-address=[::]:8443":               true,
		"--metrics-cert=a --metrics-key=b":          true,
		"--metrics-secure":                          true,
		"--metrics-secure --allow-plaintext":        true,
		"--metrics-address= ":                       false,
		"--metrics-address= --health-address=:8081": false,

		"--metrics-address=:8089 --allow-plaintext":                                   false,
		"--metrics-address=:8089 --allow-plaintext --metrics-cert=a --metrics-key=b":  true,
		"--metrics-address=:8443 --metrics-secure=false":                              false,
		"--metrics-address=:8443 --metrics-cert=a --metrics-key=b --metrics-secure=0": false,
	} {
		o, plaintext := parsePages(t, args)
		if err := o.validate(); err != nil {
			t.Errorf("%s: %v", args, err)
		}
		web := serving.HTTPOptions{Plaintext: plaintext}
		if err := o.guard(&web, &rest.Config{}, logr.Discard()); err != nil {
			t.Errorf("%s: %v", args, err)
		}
		if got := web.Protect != nil; got != want || web.SelfSigned != want {
			t.Errorf("%q: secure is %t, want %t", args, got, want)
		}
	}
}

// Without an API server nobody can be let in, so nothing is opened to others.
func TestNoMetricsOffLoopbackWithoutAnAPIServer(t *testing.T) {
	o, _ := parsePages(t, "--metrics-address=0.0.0.0:0")
	var web serving.HTTPOptions
	if err := o.guard(&web, nil, logr.Discard()); err != nil {
		t.Fatal(err)
	}
	var p listeners
	defer p.stop()
	if err := o.listen(t.Context(), web, &p); err == nil || !strings.Contains(err.Error(), "--metrics-address=0.0.0.0:0: no TLS on") {
		t.Errorf("it listens, or fails with %v", err)
	}
	o, _ = parsePages(t, "--metrics-secure")
	if err := o.guard(&web, nil, logr.Discard()); err == nil || !strings.Contains(err.Error(), "without an API server") {
		t.Errorf("got %v", err)
	}
}

// reviews is an API server that knows the token of one who may get /metrics.
func reviews(t *testing.T) *rest.Config {
	t.Helper()
	answer := func(w http.ResponseWriter, r *http.Request, review any, decide func()) {
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			t.Error(err)
		}
		decide()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /apis/authentication.k8s.io/v1/tokenreviews", func(w http.ResponseWriter, r *http.Request) {
		review := &authenticationv1.TokenReview{}
		answer(w, r, review, func() { review.Status.Authenticated = review.Spec.Token == "reader" })
	})
	mux.HandleFunc("POST /apis/authorization.k8s.io/v1/subjectaccessreviews", func(w http.ResponseWriter, r *http.Request) {
		review := &authorizationv1.SubjectAccessReview{}
		answer(w, r, review, func() { review.Status.Allowed = review.Spec.NonResourceAttributes.Path == "/metrics" })
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// Metrics and other pages are for those who may, probes for everybody, in plain text on an address
// of their own.
func TestSecurePages(t *testing.T) {
	o, _ := parsePages(t, "--metrics-secure --health-address=127.0.0.1:0")
	web := serving.HTTPOptions{
		Ready:    map[string]func() error{"good": func() error { return nil }},
		Gatherer: prometheus.NewRegistry(), Handlers: map[string]http.Handler{"/status": http.NotFoundHandler()},
	}
	if err := o.guard(&web, reviews(t), logr.Discard()); err != nil {
		t.Fatal(err)
	}
	var p listeners
	if err := o.listen(t.Context(), web, &p); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	if len(p.addresses) != 4 || p.addresses[0] != "metrics" || p.addresses[2] != "health" {
		t.Fatalf("addresses %v", p.addresses)
	}
	secure, plain := "https://"+p.addresses[1].(string), "http://"+p.addresses[3].(string)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for _, test := range []struct {
		url, token string
		code       int
	}{
		{secure + "/metrics", "", http.StatusUnauthorized},
		{secure + "/metrics", "somebody", http.StatusUnauthorized},
		{secure + "/metrics", "reader", http.StatusOK},
		{secure + "/status", "", http.StatusUnauthorized},
		{secure + "/status", "reader", http.StatusForbidden},
		{secure + "/readyz", "", http.StatusOK},
		{plain + "/readyz", "", http.StatusOK},
		{plain + "/healthz", "", http.StatusOK},
		{plain + "/metrics", "reader", http.StatusNotFound},
		{plain + "/status", "reader", http.StatusNotFound},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, test.url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+test.token)
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if response.StatusCode != test.code {
			t.Errorf("%s with token %q: got %d %s, want %d", test.url, test.token, response.StatusCode, text, test.code)
		}
	}
}

// One of two servers that cannot listen leaves none behind.
func TestPagesAllOrNone(t *testing.T) {
	o, _ := parsePages(t, "--health-address=127.0.0.1:0")
	var first, second listeners
	defer first.stop()
	if err := o.listen(t.Context(), serving.HTTPOptions{}, &first); err != nil {
		t.Fatal(err)
	}
	taken := first.addresses[3].(string)
	o, _ = parsePages(t, "--health-address="+taken)
	if err := o.listen(t.Context(), serving.HTTPOptions{}, &second); err == nil || !strings.Contains(err.Error(), "--health-address="+taken) {
		t.Errorf("got %v", err)
	}
	second.stop()
	free, err := net.Listen("tcp", second.addresses[1].(string))
	if err != nil {
		t.Fatal(err)
	}
	_ = free.Close()
}

// Plain text is allowed for the listeners that are named, or for all.
func TestPlaintextPerListener(t *testing.T) {
	for args, want := range map[string][2]bool{ // provider, metrics
		"":                                            {false, false},
		"--allow-plaintext":                           {true, true},
		"--allow-plaintext=true":                      {true, true},
		"--allow-plaintext=false":                     {false, false},
		"--allow-plaintext=metrics":                   {false, true},
		"--allow-plaintext=provider":                  {true, false},
		"--allow-plaintext=provider,metrics":          {true, true},
		"--allow-plaintext --allow-plaintext=metrics": {false, true},
	} {
		var p plaintextFlag
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		p.addTo(f, providerListener, metricsListener)
		if err := f.Parse(strings.Fields(args)); err != nil {
			t.Errorf("%s: %v", args, err)
		}
		if got := [2]bool{p.allows(providerListener), p.allows(metricsListener)}; got != want {
			t.Errorf("%q allows %v, want %v", args, got, want)
		}
	}
	for _, args := range []string{"--allow-plaintext=expander", "--allow-plaintext=metrics,", "--allow-plaintext="} {
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		new(plaintextFlag).addTo(f, providerListener, metricsListener)
		if err := f.Parse([]string{args}); err == nil || !strings.Contains(err.Error(), "must be provider or metrics") {
			t.Errorf("%s: %v", args, err)
		}
	}
}
