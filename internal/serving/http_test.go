package serving_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/internal/serving"
)

// runHTTP runs a server until the test ends.
func runHTTP(t *testing.T, o serving.HTTPOptions) *serving.HTTPServer {
	t.Helper()
	server, err := serving.ListenHTTP(t.Context(), "127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background()) // ends in Cleanup, after the test's own
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return server
}

// get gets a page over a connection of its own.
func get(t *testing.T, url string) (code int, text string) {
	t.Helper()
	return getWith(t, url, nil)
}

func getWith(t *testing.T, url string, config *tls.Config) (code int, text string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: config}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestHTTPPages(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "answer", Help: "The answer."}))
	good := func() error { return nil }
	server := runHTTP(t, serving.HTTPOptions{
		Health:   map[string]func() error{"loop": good, "alive": good},
		Ready:    map[string]func() error{"loop": good, "backend": func() error { return errors.New("connection\nrefused") }},
		Gatherer: registry,
		Handlers: map[string]http.Handler{"/status": http.RedirectHandler("/elsewhere", http.StatusFound),
			"/elsewhere": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "here") })},
	})
	tests := map[string]struct {
		code int
		text string
	}{
		"/healthz":           {200, "ok"},
		"/healthz?verbose":   {200, "[+]alive ok\n[+]loop ok\nhealthz check passed\n"},
		"/healthz?verbose=1": {200, "[+]alive ok\n[+]loop ok\nhealthz check passed\n"},
		"/readyz":            {500, "[-]backend failed: connection refused\n[+]loop ok\nreadyz check failed\n"},
		"/metrics":           {200, "# HELP answer The answer.\n# TYPE answer gauge\nanswer 0\n"},
		"/status":            {200, "here"},
		"/":                  {404, "404 page not found\n"},
	}
	for path, test := range tests {
		if code, text := get(t, "http://"+server.Address()+path); code != test.code || text != test.text {
			t.Errorf("%s answers %d %q, want %d %q", path, code, text, test.code, test.text)
		}
	}
}

func TestHTTPWithTLS(t *testing.T) {
	files := newFolder(t, time.Now())
	loaded, err := tls.LoadX509KeyPair(files.path("client.crt"), files.path("client.key"))
	if err != nil {
		t.Fatal(err)
	}
	server := runHTTP(t, serving.HTTPOptions{Files: files.server(true)})
	if err := server.Problem(); err != nil {
		t.Error(err)
	}
	url := "https://" + server.Address() + "/readyz"
	if code, text := getWith(t, url, &tls.Config{RootCAs: files.pool(t), Certificates: []tls.Certificate{loaded}}); code != http.StatusOK {
		t.Errorf("mutual TLS: %d %s", code, text)
	}
	if _, text := getWith(t, url, &tls.Config{RootCAs: files.pool(t)}); !strings.Contains(text, "certificate required") {
		t.Errorf("no client certificate: %s", text)
	}
	if code, text := get(t, strings.Replace(url, "https", "http", 1)); code != http.StatusBadRequest || !strings.Contains(text, "HTTPS") {
		t.Errorf("plain text: %d %s", code, text)
	}
}

func TestListenHTTPRefuses(t *testing.T) {
	tests := map[string]struct {
		address string
		o       serving.HTTPOptions
		want    string
	}{
		"plain text off loopback": {"0.0.0.0:0", serving.HTTPOptions{}, "no TLS on"},
		"half a pair":             {"127.0.0.1:0", serving.HTTPOptions{Files: serving.Files{Cert: "a"}}, "belong together"},
		"no authority of clients": {"127.0.0.1:0", serving.HTTPOptions{
			Certificate: func() *tls.Certificate { return nil }, Files: serving.Files{CACert: os.DevNull},
		}, "no certificate in it"},
		"own page": {"127.0.0.1:0", serving.HTTPOptions{Handlers: map[string]http.Handler{"GET /readyz": http.NotFoundHandler()}},
			"handlers: "},
		"a wrong pattern": {"127.0.0.1:0", serving.HTTPOptions{Handlers: map[string]http.Handler{"a b c": http.NotFoundHandler()}}, "handlers: "},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server, err := serving.ListenHTTP(t.Context(), test.address, test.o)
			if err == nil {
				server.Stop()
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	server, err := serving.ListenHTTP(t.Context(), "0.0.0.0:0", serving.HTTPOptions{Plaintext: true})
	if err != nil {
		t.Fatal(err)
	}
	server.Stop()
}

// TestHTTPStopWaitsNoLongerThanItsGrace: a request that hangs is cut off.
func TestHTTPStopWaitsNoLongerThanItsGrace(t *testing.T) {
	c := clocktesting.NewFakeClock(start)
	entered, ended := make(chan struct{}), make(chan struct{})
	server, err := serving.ListenHTTP(t.Context(), "127.0.0.1:0",
		serving.HTTPOptions{Clock: c, Grace: time.Minute, Handlers: map[string]http.Handler{
			"/hang": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				close(entered)
				<-r.Context().Done()
				close(ended)
			}),
		}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done, got := make(chan error, 1), make(chan int, 1)
	go func() { done <- server.Run(ctx) }()
	go func() {
		code, _ := get(t, "http://"+server.Address()+"/hang")
		got <- code
	}()
	<-entered
	cancel()
	for !c.HasWaiters() { // until Run waits
		runtime.Gosched()
	}
	c.Step(time.Minute)
	if err := <-done; err != nil {
		t.Error(err)
	}
	<-ended
	if code := <-got; code != 0 {
		t.Errorf("the request is answered with %d", code)
	}
}

// Who stops a server has ended it: nothing went wrong.
func TestHTTPStop(t *testing.T) {
	server := runHTTP(t, serving.HTTPOptions{})
	if code, _ := get(t, "http://"+server.Address()+"/healthz"); code != http.StatusOK {
		t.Fatalf("code %d", code)
	}
	server.Stop()
}

// A server without files has TLS all the same, by a certificate of its own that is renewed in time.
func TestHTTPWithACertificateOfItsOwn(t *testing.T) {
	c := clocktesting.NewFakeClock(start)
	server := runHTTP(t, serving.HTTPOptions{SelfSigned: true, Clock: c})
	shown := func() *x509.Certificate {
		t.Helper()
		conn, err := tls.Dial("tcp", server.Address(), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0]
	}
	first := shown()
	if err := first.VerifyHostname("localhost"); err != nil {
		t.Error(err)
	}
	valid := first.NotAfter.Sub(start)
	c.Step(valid/2 - time.Hour)
	if again := shown(); !again.Equal(first) {
		t.Error("it is renewed early")
	}
	c.Step(time.Hour)
	second := shown()
	if second.Equal(first) || second.NotAfter.Sub(c.Now()) != valid {
		t.Errorf("half of its time is over, and it shows one that is valid until %s", second.NotAfter)
	}
	if err := server.Problem(); err != nil {
		t.Error(err)
	}
	if code, text := get(t, "http://"+server.Address()+"/healthz"); code != http.StatusBadRequest {
		t.Errorf("plain text: %d %s", code, text)
	}
}

// Files win over a certificate of its own.
func TestHTTPPrefersFiles(t *testing.T) {
	files := newFolder(t, time.Now())
	server := runHTTP(t, serving.HTTPOptions{SelfSigned: true, Files: files.server(false)})
	if code, text := getWith(t, "https://"+server.Address()+"/healthz", &tls.Config{RootCAs: files.pool(t)}); code != http.StatusOK {
		t.Errorf("got %d %s", code, text)
	}
}

// Pages are for authorized clients, probes are for everybody.
func TestHTTPProtects(t *testing.T) {
	server := runHTTP(t, serving.HTTPOptions{
		Gatherer: prometheus.NewRegistry(),
		Handlers: map[string]http.Handler{"/status": http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})},
		Protect: func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
		},
	})
	for path, want := range map[string]int{"/metrics": http.StatusTeapot, "/status": http.StatusTeapot, "/healthz": http.StatusOK,
		"/readyz": http.StatusOK} {
		if code, _ := get(t, "http://"+server.Address()+path); code != want {
			t.Errorf("%s answers %d, want %d", path, code, want)
		}
	}
}
