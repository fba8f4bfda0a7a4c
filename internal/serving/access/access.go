// Package access protects an HTTP handler: the API server authenticates the bearer token of a
// request (TokenReview) and authorizes its user for the path (SubjectAccessReview), as the
// components of Kubernetes do for their metrics. Users need permission for a nonResourceURL, such
// as /metrics.
//
// It opens no listener and knows no page. Tokens must not be sent in plain text: serve protected
// handlers with TLS.
package access

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

const (
	// AllowedFor and DeniedFor are how long an answer of the API server is cached: a revoked or
	// granted permission takes effect after at most this time.
	AllowedFor, DeniedFor = time.Minute, 10 * time.Second

	// The maximum number of cached answers; each takes some hundred bytes.
	maxAnswers = 1024
	// The maximum rate and burst of reviews, so that invalid tokens do not cause load on the API
	// server.
	reviewQPS, reviewBurst = 20, 40
	// The timeout of the reviews of a request, less than that of a scrape.
	reviewTimeout = 5 * time.Second
)

// Guard authorizes requests with the API server. It is safe for concurrent use.
type Guard struct {
	tokens   authenticationclient.TokenReviewInterface
	rights   authorizationclient.SubjectAccessReviewInterface
	answers  *cache.LRUExpireCache // of answer by question
	problems func(error)
}

// question does not contain the token itself.
type question struct {
	token      [sha256.Size]byte
	verb, path string
}

// answer is what the request gets; StatusOK lets it pass.
type answer struct {
	code int
	text string
}

// New returns a Guard for the API server of config. Its user needs the permissions of the
// ClusterRole system:auth-delegator. problems is called for each request that could not be decided;
// it may be nil.
func New(config *rest.Config, problems func(error)) (*Guard, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst, config.RateLimiter = reviewQPS, reviewBurst, nil
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building a client for reviews of access: %w", err)
	}
	return newGuard(client, problems, clock.RealClock{}), nil
}

func newGuard(client kubernetes.Interface, problems func(error), c clock.PassiveClock) *Guard {
	if problems == nil {
		problems = func(error) {}
	}
	return &Guard{
		tokens: client.AuthenticationV1().TokenReviews(), rights: client.AuthorizationV1().SubjectAccessReviews(),
		answers: cache.NewLRUExpireCacheWithClock(maxAnswers, c), problems: problems,
	}
}

// Protect wraps a handler. Requests without a valid token get 401, those of unauthorized users 403,
// and 500 means that the API server could not be asked.
func (g *Guard) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := g.judge(r)
		if a.code == http.StatusOK {
			r.Header.Del("Authorization") // nobody behind needs it
			next.ServeHTTP(w, r)
			return
		}
		if a.code == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		http.Error(w, a.text, a.code)
	})
}

func (g *Guard) judge(r *http.Request) answer {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return answer{http.StatusUnauthorized, "Unauthorized: a bearer token is needed"}
	}
	q := question{sha256.Sum256([]byte(token)), strings.ToLower(r.Method), r.URL.Path}
	if known, ok := g.answers.Get(q); ok {
		return known.(answer) //nolint:forcetypeassert // nothing else is kept
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	a, err := g.ask(ctx, token, q)
	if err != nil {
		g.problems(err)
		return answer{http.StatusInternalServerError, "the API server could not be asked who may get this"}
	}
	lifetime := DeniedFor
	if a.code == http.StatusOK {
		lifetime = AllowedFor
	}
	g.answers.Add(q, a, lifetime)
	return a
}

// ask asks the API server.
func (g *Guard) ask(ctx context.Context, token string, q question) (answer, error) {
	who, err := g.tokens.Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}},
		metav1.CreateOptions{})
	if err != nil {
		return answer{}, failure("asking whose a token is", err)
	}
	if !who.Status.Authenticated {
		return answer{http.StatusUnauthorized, "Unauthorized: the token is not valid"}, nil
	}
	user := who.Status.User
	extra := map[string]authorizationv1.ExtraValue{}
	for key, value := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(value)
	}
	may, err := g.rights.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: q.verb, Path: q.path},
	}}, metav1.CreateOptions{})
	if err != nil {
		return answer{}, failure("asking what "+user.Username+" may do", err)
	}
	if !may.Status.Allowed {
		return answer{http.StatusForbidden, fmt.Sprintf("Forbidden: user %q may not %s %s", user.Username, q.verb, q.path)}, nil
	}
	return answer{code: http.StatusOK}, nil
}

func failure(what string, err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%s: %w: bind the ClusterRole system:auth-delegator to this user", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
