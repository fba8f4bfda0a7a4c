package webhooks_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/internal/serving"
	"github.com/evenkeel/evenkeel/internal/webhooks"
)

// Clients that read the configuration as an API server does, and may be late by nearly the time that a
// rotation waits, have no failed handshake while certificates are replaced.
func TestNoHandshakeFailsInARotation(t *testing.T) {
	w := newAPIServer(t, installed()...)
	var replicas []*webhooks.Keeper
	var addresses []string
	for range 2 {
		k := w.keeper(t)
		k.Sync(t.Context())
		server, err := serving.ListenHTTP(t.Context(), "127.0.0.1:0", serving.HTTPOptions{Certificate: k.Certificate, Clock: w.clock})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- server.Run(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		replicas, addresses = append(replicas, k), append(addresses, server.Address())
	}
	var late atomic.Pointer[[]byte] // what API servers know
	learn := func() { late.Store(&w.trusts(t)[0]) }
	learn()
	var handshakes [4]atomic.Int64
	// Between any two passes each client ends the handshake that it is at and makes another: none is later
	// than a rotation waits for.
	another := func() {
		for i := range handshakes {
			for from := handshakes[i].Load(); handshakes[i].Load() < from+2 && !t.Failed(); {
				runtime.Gosched()
			}
		}
	}
	stop, load := make(chan struct{}), sync.WaitGroup{}
	for i := range handshakes {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				pool := x509.NewCertPool()
				pool.AppendCertsFromPEM(*late.Load())
				c := &tls.Config{RootCAs: pool, ServerName: "evenkeel-webhooks.evenkeel-system.svc", Time: w.clock.Now, MinVersion: tls.VersionTLS12}
				conn, err := (&tls.Dialer{Config: c}).DialContext(context.Background(), "tcp", addresses[i%2])
				if err != nil {
					t.Error(err)
					return
				}
				conn.Close()
				handshakes[i].Add(1)
			}
		})
	}
	for range 10 {
		before := replicas[0].Certificate()
		w.clock.Step(webhooks.DefaultLifetime*2/3 + time.Minute)
		for range 3 {
			for _, k := range replicas {
				another()
				k.Sync(t.Context())
			}
			learn()
			w.clock.Step(replicas[0].Settle())
		}
		if replicas[0].Certificate() == before || replicas[1].Certificate().Leaf.Equal(before.Leaf) {
			t.Error("no rotation")
		}
	}
	close(stop)
	load.Wait()
}

// Until the caches are filled, nothing is answered; other methods than POST never are.
func TestHandlersWaitForReadiness(t *testing.T) {
	ready := errors.New("the caches are not filled yet")
	handlers := webhooks.WhenReady(map[string]http.Handler{"/mutate": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "answer")
	})}, func() error { return ready })
	server, err := serving.ListenHTTP(t.Context(), "127.0.0.1:0", serving.HTTPOptions{Handlers: handlers})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for _, c := range []struct {
		method string
		ready  error
		code   int
	}{
		{http.MethodPost, errors.New("the caches are not filled yet"), 503}, {http.MethodPost, nil, 200},
		{http.MethodPost, errors.New("a watch has failed"), 200}, {http.MethodGet, nil, 405},
	} {
		ready = c.ready
		request, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+server.Address()+"/mutate", bytes.NewReader(nil))
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != c.code {
			t.Errorf("%s, ready %v: %d %s", c.method, c.ready, response.StatusCode, text)
		}
	}
}
