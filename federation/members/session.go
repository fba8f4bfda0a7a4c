package members

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// qps and burst bound the calls to a cluster in a second, probes apart.
const qps, burst = 100, 200

// fingerprint identifies what a kubeconfig says without saying it.
type fingerprint [sha256.Size]byte

// session is what is connected by one kubeconfig. It asks the cluster again and again whether it
// answers, until it is closed.
type session struct {
	cluster     *Cluster
	fingerprint fingerprint
	probing     *http.Client
	host        string // stands for the address in errors, logs and metrics
	server      string // host and port
	clientset   kubernetes.Interface
	writer      client.Client
	transports  []*http.Transport
	cancel      context.CancelFunc
	running     sync.WaitGroup
	hurry       chan struct{} // asks for a probe now

	// Used by the probing goroutine only.
	identified bool
	failed     bool    // since the caches were opened
	opening    *caches // not filled yet
	openedAt   time.Time
	fixedNodes bool // of the caches
}

// newSession builds the clients of a cluster. Nothing is called yet. Every session has connections
// of its own, so that they end with it, and the probes have others than the calls: a connection
// that hangs does not answer for the cluster.
func newSession(c *Cluster, config *rest.Config, id fingerprint) (*session, error) {
	server, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.Host = "https://" + c.name + strings.TrimSuffix(server.Path, "/")
	s := &session{cluster: c, fingerprint: id, host: config.Host, server: server.Host, hurry: make(chan struct{}, 1)}
	config.UserAgent = "evenkeel-controller"
	config.QPS = -1 // see limited, which does not log addresses
	config.WarningHandler = rest.NoWarnings{}
	o := c.options
	probing, err := s.httpClient(config, func(t *http.Transport) http.RoundTripper {
		t.DisableKeepAlives = true
		return &addressed{server: s.server, next: t}
	})
	if err != nil {
		return nil, err
	}
	s.probing = probing
	limit := flowcontrol.NewTokenBucketRateLimiter(qps, burst)
	calling, err := s.httpClient(config, func(t *http.Transport) http.RoundTripper {
		t.ResponseHeaderTimeout = max(writeTimeout, o.CallTimeout)
		return &calls{session: s, limit: limit, next: &addressed{server: s.server, next: t}}
	})
	if err != nil {
		return nil, err
	}
	typed := rest.CopyConfig(config)
	typed.ContentType, typed.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	if s.clientset, err = kubernetes.NewForConfigAndClient(typed, calling); err != nil {
		return nil, err
	}
	if s.writer, err = client.New(config, client.Options{HTTPClient: calling, Scheme: clientgoscheme.Scheme, Mapper: mapper()}); err != nil {
		return nil, err
	}
	return s, nil
}

// mapper knows the kinds that are written, so that the cluster is not asked for all that it has.
func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(appsv1.SchemeGroupVersion.WithKind(ReplicaSet), meta.RESTScopeNamespace)
	m.Add(appsv1.SchemeGroupVersion.WithKind(Deployment), meta.RESTScopeNamespace)
	m.Add(eventsv1.SchemeGroupVersion.WithKind("Event"), meta.RESTScopeNamespace)
	m.Add(v1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	m.Add(v1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	return m
}

// httpClient makes a client with a transport of its own, which does not follow redirects: they
// would carry credentials elsewhere.
func (s *session) httpClient(config *rest.Config, wrap func(*http.Transport) http.RoundTripper) (*http.Client, error) {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	dial := s.cluster.options.dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: s.cluster.options.CallTimeout, KeepAlive: 30 * time.Second}).DialContext
	}
	t := utilnet.SetTransportDefaults(&http.Transport{
		Proxy: config.Proxy, DialContext: dial, TLSClientConfig: tls, TLSHandshakeTimeout: s.cluster.options.CallTimeout,
		OnProxyConnectResponse: func(_ context.Context, _ *url.URL, _ *http.Request, r *http.Response) error {
			if r.StatusCode != http.StatusOK {
				return errProxy
			}
			return nil
		},
	})
	s.transports = append(s.transports, t)
	authenticated, err := rest.HTTPWrappersForConfig(config, wrap(t))
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: authenticated, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// addressed sends requests to the address of a cluster, whose name stands in its place until then.
type addressed struct {
	server string
	next   http.RoundTripper
}

func (a *addressed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Host, r.Host = a.server, a.server
	return a.next.RoundTrip(r)
}

// calls bounds and measures the calls to a cluster.
type calls struct {
	session *session
	limit   flowcontrol.RateLimiter
	next    http.RoundTripper
}

func (c *calls) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := c.limit.Wait(r.Context()); err != nil {
		return nil, context.DeadlineExceeded // it would wait until after its deadline
	}
	clock := c.session.cluster.options.Clock
	start := clock.Now()
	response, err := c.next.RoundTrip(r)
	c.session.cluster.options.Metrics.called(c.session.cluster.name, r, clock.Since(start))
	if err != nil && timedOut(err) || response != nil && response.StatusCode == http.StatusUnauthorized {
		c.session.ask()
	}
	return response, err
}

// ask has the cluster probed now.
func (s *session) ask() {
	select {
	case s.hurry <- struct{}{}:
	default: // it will be
	}
}

// open starts the session.
func (s *session) open(ctx context.Context) {
	ctx, s.cancel = context.WithCancel(ctx) //nolint:gosec // close calls it
	s.running.Go(func() { s.run(ctx) })
}

// close ends the session, and returns when nothing of it runs any more. What its caches hold stays.
func (s *session) close() {
	s.cancel()
	s.running.Wait()
	for _, t := range s.transports {
		t.CloseIdleConnections()
	}
}

func (s *session) run(ctx context.Context) {
	for {
		err := s.check(ctx)
		if ctx.Err() != nil {
			return
		}
		s.cluster.checked(s, err)
		wait := s.cluster.options.Clock.NewTimer(s.cluster.options.ProbeInterval)
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C():
		case <-s.hurry:
			wait.Stop()
		}
	}
}

// errWebPage is returned where a web page answers, such as a login or an error page of a proxy.
var errWebPage = errors.New("a web page answers at the address, not an API server")

// errProxy is returned when the proxy of the kubeconfig does not connect.
var errProxy = errors.New("the proxy in the kubeconfig (proxy-url) refuses to connect to the API server")

// errFilling is returned while the cluster answers, but what is there is not known yet.
var errFilling = errors.New("reading what runs in the cluster")

// check finds out whether the cluster answers, is the one it is taken for, and lets itself be read.
// What was read before it was lost is read anew: a watch may take long to notice.
func (s *session) check(ctx context.Context) error {
	err := s.probe(ctx)
	s.cluster.options.Metrics.probed(s.cluster.name, err)
	if err != nil {
		s.failed = true
		return err
	}
	if !s.identified || s.failed {
		if err := s.identify(ctx); err != nil {
			return err
		}
		s.identified = true
	}
	if own, fixedNodes := s.cluster.reads(s); s.failed || !own && s.opening == nil || s.fixedNodes != fixedNodes {
		if err := s.reopen(ctx, fixedNodes); err != nil {
			return err
		}
		s.failed = false
	}
	err = s.filling()
	s.failed = errors.As(err, new(*Problem)) // then it is tried again
	return err
}

// probe asks whether the cluster answers.
func (s *session) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cluster.options.ProbeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.host+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	response, err := s.probing.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	s.cluster.skewed(skewOf(response.Header, s.cluster.options.Clock.Now()))
	switch response.StatusCode {
	case http.StatusUnauthorized:
		return &Problem{v1alpha1.ReasonUnauthorized, "the cluster does not accept the credentials: " + remedy}
	case http.StatusOK, http.StatusForbidden: // some clusters keep their health to themselves
		if strings.HasPrefix(response.Header.Get("Content-Type"), "text/html") {
			return errWebPage
		}
		return nil
	}
	return apierrors.NewGenericServerResponse(response.StatusCode, "get", v1.Resource(""), "", "", 0, false)
}

// identify finds out which cluster it is, and refuses one that is taken.
func (s *session) identify(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cluster.options.CallTimeout)
	defer cancel()
	var system v1.Namespace
	err := s.writer.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &system)
	switch {
	case apierrors.IsForbidden(err):
		return forbidden("get the namespace kube-system, whose UID identifies it")
	case err != nil:
		return err
	}
	version := s.version(ctx)
	return s.cluster.identified(s, string(system.UID), version)
}

// version of the API server; empty if it does not say.
func (s *session) version(ctx context.Context) string {
	var answer struct {
		GitVersion string `json:"gitVersion"`
	}
	body, err := s.clientset.Discovery().RESTClient().Get().AbsPath("/version").SetHeader("Accept", "application/json").DoRaw(ctx)
	if err != nil || json.Unmarshal(body, &answer) != nil {
		return ""
	}
	return answer.GitVersion[:min(len(answer.GitVersion), 64)]
}

// reopen begins to read the cluster anew. Until that is done, what was read before is shown.
func (s *session) reopen(ctx context.Context, fixedNodes bool) error {
	if s.opening != nil {
		s.opening.cancel()
	}
	s.fixedNodes = fixedNodes
	fresh, err := openCaches(ctx, s.clientset, s.cluster, fixedNodes)
	if err != nil {
		return fmt.Errorf("watching the cluster: %w", err)
	}
	s.opening, s.openedAt = fresh, s.cluster.options.Clock.Now()
	s.running.Go(func() {
		if fresh.wait(ctx) {
			s.ask()
		}
	})
	return nil
}

// filling returns nil if what is known of the cluster is current.
func (s *session) filling() error {
	c := s.opening
	if c == nil {
		return s.cluster.read().denied()
	}
	switch problem := c.denied(); {
	case c.ready():
		s.opening = nil
		s.cluster.filled(s, c)
		return nil
	case problem != nil:
		return problem
	case s.cluster.options.Clock.Since(s.openedAt) > s.cluster.options.OfflineAfter/2:
		return context.DeadlineExceeded
	}
	return errFilling
}
