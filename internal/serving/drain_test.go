package serving_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/internal/serving"
)

// served is a server certificate for this host, and the client's side of it.
func served(t *testing.T) (*tls.Certificate, *tls.Config) {
	t.Helper()
	authority, err := serving.NewAuthority(time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	made, err := authority.Server("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(made.Cert, made.Key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority.Cert)
	return &pair, &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// A certificate of the caller's is asked for at each handshake; until there is one, there is none.
func TestHTTPServesTheCertificateItIsGiven(t *testing.T) {
	var current atomic.Pointer[tls.Certificate]
	server := runHTTP(t, serving.HTTPOptions{Certificate: current.Load})
	first, firstClient := served(t)
	second, secondClient := served(t)
	for _, c := range []struct {
		name        string
		certificate *tls.Certificate
		client      *tls.Config
		want        int
	}{
		{"none", nil, firstClient, 0}, {"first", first, firstClient, 200}, {"first", first, secondClient, 0},
		{"second", second, secondClient, 200}, {"second", second, firstClient, 0},
	} {
		current.Store(c.certificate)
		if code, text := getWith(t, "https://"+server.Address()+"/healthz", c.client); code != c.want {
			t.Errorf("%s: %d %s", c.name, code, text)
		}
	}
	old := secondClient.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if code, _ := getWith(t, "https://"+server.Address()+"/healthz", old); code != 0 {
		t.Errorf("TLS 1.1: %d", code)
	}
}

// Beside a certificate of the caller's, a file has the authorities of clients: nobody else gets an answer.
func TestHTTPAsksClientsForACertificate(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	pair, nobody := served(t)
	files, others := newFolder(t, clock.Now()), newFolder(t, clock.Now())
	server := runHTTP(t, serving.HTTPOptions{
		Certificate: func() *tls.Certificate { return pair }, Files: serving.Files{CACert: files.path("ca.crt")}, Clock: clock,
	})
	with := func(f folder) *tls.Config {
		loaded, err := tls.LoadX509KeyPair(f.path("client.crt"), f.path("client.key"))
		if err != nil {
			t.Fatal(err)
		}
		config := nobody.Clone()
		config.Certificates = []tls.Certificate{loaded}
		return config
	}
	ask := func(when string, config *tls.Config, want int) {
		t.Helper()
		if code, text := getWith(t, "https://"+server.Address()+"/healthz", config); code != want {
			t.Errorf("%s: %d %s", when, code, text)
		}
	}
	ask("no certificate", nobody, 0)
	ask("one of another authority", with(others), 0)
	ask("one of the authority", with(files), http.StatusOK)

	files.write(t, "ca.crt", nil)
	clock.Step(serving.ReloadInterval)
	if err := server.Problem(); err == nil || !strings.Contains(err.Error(), "no certificate in it") {
		t.Errorf("with an empty file: %v", err)
	}
	ask("the authorities are lost, no certificate", nobody, 0)
	ask("the authorities are lost, one of the former authority", with(files), http.StatusOK)
	files.renew(t, clock.Now())
	clock.Step(serving.ReloadInterval)
	ask("one of the next authority", with(files), http.StatusOK)
}

// While a server drains, it answers, and its clients do not use their connections again.
func TestHTTPDrains(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	server, err := serving.ListenHTTP(t.Context(), "127.0.0.1:0", serving.HTTPOptions{Drain: 5 * time.Second, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	client := &http.Client{Transport: &http.Transport{}}
	answer := func() (closes bool, err error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+server.Address()+"/healthz", http.NoBody)
		if err != nil {
			return false, err
		}
		response, err := client.Do(request)
		if err != nil {
			return false, err
		}
		defer response.Body.Close()
		_, err = io.Copy(io.Discard, response.Body)
		return response.Close, err
	}
	if closes, err := answer(); closes || err != nil {
		t.Errorf("before the end: %v, %v", closes, err)
	}
	cancel()
	for !clock.HasWaiters() {
		if _, err := answer(); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if closes, err := answer(); !closes || err != nil {
			t.Errorf("while it drains: %v, %v", closes, err)
		}
	}
	clock.Step(5 * time.Second)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := answer(); err == nil {
		t.Error("it answers after the end")
	}
}

// A request larger than allowed is cut off.
func TestHTTPBoundsBodies(t *testing.T) {
	server := runHTTP(t, serving.HTTPOptions{MaxBody: 1000, Handlers: map[string]http.Handler{
		"POST /": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var tooLarge *http.MaxBytesError
			if _, err := io.Copy(io.Discard, r.Body); errors.As(err, &tooLarge) {
				w.WriteHeader(http.StatusRequestEntityTooLarge)
			}
		}),
	}})
	for size, want := range map[int]int{0: 200, 1000: 200, 1001: 413} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+server.Address()+"/",
			strings.NewReader(strings.Repeat("x", size)))
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%d bytes: %d", size, response.StatusCode)
		}
	}
}
