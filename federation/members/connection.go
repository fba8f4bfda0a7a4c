package members

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
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

// connection is how a cluster is reached by one kubeconfig. Only the reconciler of its MemberCluster uses it, but for
// the clients.
type connection struct {
	kubeconfig    [sha256.Size]byte // identifies what it says without saying it
	expires, warn time.Time         // when the credentials expire, and from when on that is reported; zero for never
	hostUID       string            // identifies the host

	ctx       context.Context // of what reads the cluster
	close     context.CancelFunc
	probing   *http.Client
	address   string // stands for the real one in errors, logs and metrics
	clientset kubernetes.Interface
	writer    client.Client

	valid      bool // the cluster has accepted the credentials
	identified bool
	failed     bool    // since the caches were opened
	caches     *caches // that were opened last
	opened     time.Time
}

// connect builds the clients of a cluster. Nothing is called yet. Every connection has connections of its own, so that
// they end with it, and the probes have others than the calls: a connection that hangs does not answer for the cluster.
func (c *Cluster) connect(ctx context.Context, config *rest.Config) (*connection, error) {
	server, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.Host = "https://" + c.name + strings.TrimSuffix(server.Path, "/")
	config.UserAgent, config.WarningHandler = "evenkeel-controller", rest.NoWarnings{}
	config.QPS = -1 // see calling, which does not log addresses
	s := &connection{ctx: ctx, address: config.Host}
	s.probing, err = httpClient(config, c.options, func(t *http.Transport) http.RoundTripper {
		t.DisableKeepAlives = true
		return addressed(server.Host, t)
	})
	if err != nil {
		return nil, err
	}
	calling, err := httpClient(config, c.options, func(t *http.Transport) http.RoundTripper {
		t.ResponseHeaderTimeout = max(writeTimeout, c.options.CallTimeout)
		context.AfterFunc(ctx, t.CloseIdleConnections)
		return c.calling(addressed(server.Host, t))
	})
	if err != nil {
		return nil, err
	}
	typed := rest.CopyConfig(config)
	typed.ContentType, typed.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	if s.clientset, err = kubernetes.NewForConfigAndClient(typed, calling); err != nil {
		return nil, err
	}
	s.writer, err = client.New(config, client.Options{HTTPClient: calling, Scheme: clientgoscheme.Scheme, Mapper: mapper()})
	return s, err
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
func httpClient(config *rest.Config, o *Options, wrap func(*http.Transport) http.RoundTripper) (*http.Client, error) {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	dial := o.dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: o.CallTimeout, KeepAlive: 30 * time.Second}).DialContext
	}
	t := utilnet.SetTransportDefaults(&http.Transport{
		Proxy: config.Proxy, DialContext: dial, TLSClientConfig: tls, TLSHandshakeTimeout: o.CallTimeout,
		OnProxyConnectResponse: func(_ context.Context, _ *url.URL, _ *http.Request, r *http.Response) error {
			if r.StatusCode != http.StatusOK {
				return errProxy
			}
			return nil
		},
	})
	authenticated, err := rest.HTTPWrappersForConfig(config, wrap(t))
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: authenticated,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// addressed sends requests to the address of a cluster, whose name stands in its place until then.
func addressed(server string, next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.URL.Host, r.Host = server, server
		return next.RoundTrip(r)
	})
}

// calling bounds and measures the calls to a cluster. One that shows that it may not answer has it probed.
func (c *Cluster) calling(next http.RoundTripper) http.RoundTripper {
	limit := flowcontrol.NewTokenBucketRateLimiter(qps, burst)
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		if err := limit.Wait(r.Context()); err != nil {
			return nil, context.DeadlineExceeded // it would wait until after its deadline
		}
		start := clock.Now()
		response, err := next.RoundTrip(r)
		c.options.Metrics.called(c.name, r, clock.Since(start))
		if err != nil && timedOut(err) || response != nil && response.StatusCode == http.StatusUnauthorized {
			c.ask()
		}
		return response, err
	})
}

// probe asks whether the cluster answers, and says by how much its clock is ahead.
func (s *connection) probe(ctx context.Context, o *Options) (skew time.Duration, _ error) {
	ctx, cancel := context.WithTimeout(ctx, o.ProbeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.address+"/readyz", http.NoBody)
	if err != nil {
		return 0, err
	}
	response, err := s.probing.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	skew = skewOf(response.Header, clock.Now())
	switch response.StatusCode {
	case http.StatusUnauthorized:
		return skew, problemOf(v1alpha1.ReasonUnauthorized, "the cluster does not accept the credentials: %s", remedy)
	case http.StatusOK, http.StatusForbidden: // some clusters keep their health to themselves
		if strings.HasPrefix(response.Header.Get("Content-Type"), "text/html") {
			return skew, errWebPage
		}
		return skew, nil
	}
	return skew, apierrors.NewGenericServerResponse(response.StatusCode, "get", v1.Resource(""), "", "", 0, false)
}

// identify finds out which cluster it is, and the version of its API server; empty if that does not say.
func (s *connection) identify(ctx context.Context, o *Options) (uid, version string, _ error) {
	ctx, cancel := context.WithTimeout(ctx, o.CallTimeout)
	defer cancel()
	uid, err := UIDOf(ctx, s.writer)
	if apierrors.IsForbidden(err) {
		err = forbidden("get the namespace kube-system, whose UID identifies it")
	}
	if err != nil {
		return "", "", err
	}
	var answer struct {
		GitVersion string `json:"gitVersion"`
	}
	body, _ := s.clientset.Discovery().RESTClient().Get().AbsPath("/version").SetHeader("Accept", "application/json").DoRaw(ctx)
	_ = json.Unmarshal(body, &answer) // it may not say
	return uid, answer.GitVersion[:min(len(answer.GitVersion), 64)], nil
}

// read returns nil if what is known of the cluster is current, and shows it then. What was read before the
// cluster was lost is read anew: a watch may take long to notice. Until that is done, the former is shown. Nodes are
// waited for as well, because a cluster whose room is unknown gets replicas by its weight alone; but if only they
// cannot be read, the cluster is not lost.
func (s *connection) read(c *Cluster, now time.Time) error {
	if fixed := c.member.Spec.FixedNodes; s.caches == nil || s.failed || s.caches.fixedNodes != fixed {
		if s.caches != nil && s.caches != c.caches {
			s.caches.cancel()
		}
		s.caches, s.opened, s.failed = openCaches(s.ctx, s.clientset, c, fixed), now, false
	}
	known, refused := s.caches.nodesKnown()
	nodes := !s.caches.fixedNodes || known || refused
	overdue := now.Sub(s.opened) > c.options.OfflineAfter/2
	switch ready, denied := s.caches.ready(); {
	case denied != nil:
		s.failed = true // it is tried again
		return denied
	case s.caches == c.caches:
	case ready && (nodes || overdue):
		c.show(s.caches)
	case overdue:
		return context.DeadlineExceeded
	default:
		return errFilling
	}
	return nil
}

// skewMatters is by how much the clock of a cluster may be off without being corrected: an answer
// says the time in seconds, and takes a moment.
const skewMatters = 5 * time.Second

// skewOf is by how much the clock of a cluster is ahead, as its answer to a probe says; 0 if that is
// little.
func skewOf(answer http.Header, now time.Time) time.Duration {
	date, err := http.ParseTime(answer.Get("Date"))
	if err != nil {
		return 0
	}
	if skew := date.Sub(now.Truncate(time.Second)); skew.Abs() >= skewMatters {
		return skew
	}
	return 0
}

// expiresSoon is for how long at most it is reported before that credentials expire.
const expiresSoon = 14 * 24 * time.Hour

// warnAt is when it is reported that credentials expire soon: in the last fifth of their lifetime,
// but no more than expiresSoon before; zero if they do not expire.
func warnAt(issued, expires time.Time) time.Time {
	switch {
	case expires.IsZero():
		return expires
	case issued.IsZero():
		return expires.Add(-expiresSoon)
	}
	return expires.Add(-min(expiresSoon, expires.Sub(issued)/5))
}
