package members

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// server answers as the API server of a member does, as far as members asks.
type server struct {
	uid, version string

	mu       sync.Mutex
	token    string        // that it accepts
	denies   string        // part of the paths that it forbids
	slow     string        // part of the paths that it answers late
	late     time.Duration // by how much
	redirect string        // where it sends everyone
	page     bool          // whether a web page answers
	off      time.Duration // by how much its clock is ahead
	objects  map[string]map[string]runtime.Object
	watchers map[string][]chan event
	hung     chan struct{} // not nil: nothing is answered until it is closed
	calls    map[string]int
}

type event struct {
	Type   string         `json:"type"`
	Object runtime.Object `json:"object"`
}

func newServer(uid, token string) *server {
	return &server{
		uid: uid, version: "v1.36.3", token: token,
		objects: map[string]map[string]runtime.Object{}, watchers: map[string][]chan event{}, calls: map[string]int{},
	}
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	hung, token, denies, redirect, page := s.hung, s.token, s.denies, s.redirect, s.page
	slow, late := s.slow != "" && strings.Contains(r.URL.Path, s.slow), s.late
	w.Header().Set("Date", time.Now().Add(s.off).UTC().Format(http.TimeFormat))
	s.calls[r.Method+" "+r.URL.Path]++
	s.mu.Unlock()
	if hung != nil {
		select {
		case <-hung:
		case <-r.Context().Done():
			return
		}
	}
	if slow {
		select {
		case <-time.After(late):
		case <-r.Context().Done():
			return
		}
	}
	switch {
	case page:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte("<html>please log in</html>"))
	case redirect != "":
		http.Redirect(w, r, redirect+r.URL.Path, http.StatusTemporaryRedirect)
	case r.Header.Get("Authorization") != "Bearer "+token:
		refuse(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized)
	case denies != "" && strings.Contains(r.URL.Path, denies):
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden)
	case r.URL.Path == "/readyz":
		_, _ = w.Write([]byte("ok"))
	case r.URL.Path == "/version":
		answer(w, map[string]string{"gitVersion": s.version})
	case r.URL.Path == "/api/v1/namespaces/kube-system":
		answer(w, &v1.Namespace{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: types.UID(s.uid)},
		})
	case r.URL.Query().Has("watch"):
		s.watch(w, r)
	default:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	}
}

func answer(w http.ResponseWriter, o any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(o)
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: reason, Code: int32(code),
		Message: "what the server of s3cr3t says", // an HTTP status
	})
}

// watch sends what is there and then what happens, as an API server does for sendInitialEvents.
func (s *server) watch(w http.ResponseWriter, r *http.Request) {
	kind := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	events := make(chan event, 100)
	s.mu.Lock()
	for _, o := range s.objects[kind] {
		events <- event{"ADDED", o}
	}
	end := bookmark(kind)
	events <- event{"BOOKMARK", end}
	s.watchers[kind] = append(s.watchers[kind], events)
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	for {
		select {
		case <-r.Context().Done():
			return
		case e, open := <-events:
			if !open || json.NewEncoder(w).Encode(e) != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	}
}

func bookmark(kind string) runtime.Object {
	meta := metav1.ObjectMeta{ResourceVersion: "1", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}
	switch kind {
	case "pods":
		return &v1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: meta}
	case "nodes":
		return &v1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: meta}
	case "replicasets":
		return &appsv1.ReplicaSet{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: ReplicaSet}, ObjectMeta: meta}
	}
	return &appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: Deployment}, ObjectMeta: meta}
}

// put stores an object and tells the watchers.
func (s *server) put(kind string, o interface {
	runtime.Object
	metav1.Object
}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what := "MODIFIED"
	if s.objects[kind] == nil {
		s.objects[kind] = map[string]runtime.Object{}
	}
	if s.objects[kind][o.GetName()] == nil {
		what = "ADDED"
	}
	s.objects[kind][o.GetName()] = o
	for _, w := range s.watchers[kind] {
		w <- event{what, o}
	}
}

// hang lets calls wait without an answer until the function that it returns is called.
func (s *server) hang() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := make(chan struct{})
	s.hung = c
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.hung = nil
		close(c)
	}
}

func (s *server) set(change func(*server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *server) called(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[what]
}

// network connects to servers in memory, so that time can be virtual. An address
// without a server refuses connections.
type network struct {
	mu      sync.Mutex
	servers map[string]*httptest.Server
	pipes   map[string]chan net.Conn
	open    map[string][]net.Conn
}

func newNetwork() *network {
	return &network{servers: map[string]*httptest.Server{}, pipes: map[string]chan net.Conn{}, open: map[string][]net.Conn{}}
}

var errRefused = &net.OpError{Op: "dial", Err: errors.New("refused")}

func (n *network) dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	pipe := n.pipes[address]
	n.mu.Unlock()
	if pipe == nil {
		return nil, errRefused
	}
	near, far := net.Pipe()
	select {
	case pipe <- far:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	n.mu.Lock()
	n.open[address] = append(n.open[address], far)
	n.mu.Unlock()
	return newBuffered(near), nil
}

// buffered is a connection that takes what is written at once, as that of a kernel does. Without it the end of a
// connection waits for a peer that does not read, and holds a lock meanwhile, so that virtual time stands still.
type buffered struct {
	net.Conn
	queue  chan []byte
	closed chan struct{}
	once   sync.Once
}

func newBuffered(c net.Conn) *buffered {
	b := &buffered{Conn: c, queue: make(chan []byte, 1024), closed: make(chan struct{})}
	go func() {
		for {
			select {
			case data := <-b.queue:
				if _, err := c.Write(data); err != nil {
					return
				}
			case <-b.closed:
				return
			}
		}
	}()
	return b
}

func (b *buffered) Write(data []byte) (int, error) {
	select {
	case <-b.closed:
		return 0, net.ErrClosed
	case b.queue <- slices.Clone(data):
		return len(data), nil
	}
}

func (b *buffered) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.Conn.Close()
}

func (b *buffered) SetWriteDeadline(time.Time) error { return nil }

// up starts a server at an address.
func (n *network) up(address string, s *server) {
	l := &listener{pipe: make(chan net.Conn), closed: make(chan struct{})}
	web := &httptest.Server{Listener: l, Config: &http.Server{Handler: s,
		ErrorLog: log.New(io.Discard, "", 0)}} // no timeout in a test
	n.mu.Lock()
	n.pipes[address], n.servers[address] = l.pipe, web
	n.mu.Unlock()
	web.StartTLS()
}

// down kills it, connections included.
func (n *network) down(address string) {
	n.mu.Lock()
	web, open := n.servers[address], n.open[address]
	delete(n.pipes, address)
	delete(n.servers, address)
	delete(n.open, address)
	n.mu.Unlock()
	for _, c := range open {
		_ = c.Close()
	}
	if web != nil {
		web.CloseClientConnections()
		web.Close()
	}
}

type listener struct {
	pipe   chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.pipe:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// kubeconfig is one with a token.
func kubeconfig(t testing.TB, address, token string, change ...func(*clientcmdapi.Config)) []byte {
	t.Helper()
	config := clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: address, CertificateAuthorityData: authority}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}
	for _, c := range change {
		c(&config)
	}
	data, err := clientcmd.Write(config)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// authority is that of the servers in memory.
var authority = func() []byte {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}()
