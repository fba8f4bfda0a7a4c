package access

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// authority is what an API server knows of users. A token is the name of its user.
type authority struct {
	mu      sync.Mutex
	users   []string
	readers map[string]string // the path that a user may get
	fails   error             // of every review
	failsOn string            // the resource that fails alone
	reviews int
}

func (a *authority) client() *fake.Clientset {
	client := fake.NewClientset()
	client.PrependReactor("create", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.reviews++
		if a.fails != nil && (a.failsOn == "" || a.failsOn == action.GetResource().Resource) {
			return true, nil, a.fails
		}
		switch review := action.(clienttesting.CreateAction).GetObject().(type) {
		case *authenticationv1.TokenReview:
			for _, name := range a.users {
				if review.Spec.Token == name {
					review.Status.Authenticated = true
					review.Status.User = authenticationv1.UserInfo{Username: name, UID: "uid of " + name, Groups: []string{"people"},
						Extra: map[string]authenticationv1.ExtraValue{"from": {"here"}}}
				}
			}
			return true, review, nil
		case *authorizationv1.SubjectAccessReview:
			s := review.Spec
			known := s.UID == "uid of "+s.User && len(s.Groups) == 1 && s.Groups[0] == "people" && len(s.Extra["from"]) == 1 &&
				s.ResourceAttributes == nil
			review.Status.Allowed = known && s.NonResourceAttributes.Verb == "get" && s.NonResourceAttributes.Path == a.readers[s.User]
			return true, review, nil
		}
		return false, nil, nil
	})
	return client
}

// get asks for a path with a header, empty for none.
func get(handler http.Handler, path, authorization string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

var page = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "" {
		w.WriteHeader(http.StatusTeapot) // a token went further than it had to
	}
})

func TestWhoMayGetAPage(t *testing.T) {
	a := &authority{users: []string{"prometheus", "somebody"}, readers: map[string]string{"prometheus": "/metrics"}}
	handler := newGuard(a.client(), func(err error) { t.Error(err) }, clock.RealClock{}).Protect(page)
	for name, test := range map[string]struct {
		authorization, path string
		code                int
		text                string
	}{
		"no token":                 {"", "/metrics", http.StatusUnauthorized, "a bearer token is needed"},
		"an empty one":             {"Bearer ", "/metrics", http.StatusUnauthorized, "a bearer token is needed"},
		"another scheme":           {"Basic prometheus", "/metrics", http.StatusUnauthorized, "a bearer token is needed"},
		"the token alone":          {"prometheus", "/metrics", http.StatusUnauthorized, "a bearer token is needed"},
		"of nobody":                {"Bearer nobody", "/metrics", http.StatusUnauthorized, "the token is not valid"},
		"of one without the right": {"Bearer somebody", "/metrics", http.StatusForbidden, `user "somebody" may not get /metrics`},
		"for another page":         {"Bearer prometheus", "/status", http.StatusForbidden, `user "prometheus" may not get /status`},
		"of a reader":              {"Bearer prometheus", "/metrics", http.StatusOK, ""},
		"written otherwise":        {"bearer  prometheus", "/metrics", http.StatusOK, ""},
		"with a query":             {"Bearer prometheus", "/metrics?a=b", http.StatusOK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := get(handler, test.path, test.authorization)
			if w.Code != test.code || !strings.Contains(w.Body.String(), test.text) {
				t.Errorf("got %d %q, want %d %q", w.Code, w.Body, test.code, test.text)
			}
			if asks := w.Header().Get("WWW-Authenticate") == "Bearer"; asks != (test.code == http.StatusUnauthorized) {
				t.Errorf("%d has the headers %v", w.Code, w.Header())
			}
		})
	}
}

// A right that is taken away or given counts before long, and the API server is not asked at each
// scrape.
func TestAnswersAreKeptForAWhile(t *testing.T) {
	c := clocktesting.NewFakePassiveClock(time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC))
	a := &authority{users: []string{"prometheus"}, readers: map[string]string{"prometheus": "/metrics"}}
	handler := newGuard(a.client(), func(err error) { t.Error(err) }, c).Protect(page)
	step := func(after time.Duration, code, reviews int) {
		t.Helper()
		c.SetTime(c.Now().Add(after))
		if w := get(handler, "/metrics", "Bearer prometheus"); w.Code != code || a.reviews != reviews {
			t.Errorf("got %d after %d reviews, want %d after %d", w.Code, a.reviews, code, reviews)
		}
	}
	step(0, http.StatusOK, 2)
	a.readers = nil
	step(AllowedFor, http.StatusOK, 2)
	step(1, http.StatusForbidden, 4)
	a.readers = map[string]string{"prometheus": "/metrics"}
	step(DeniedFor, http.StatusForbidden, 4)
	step(1, http.StatusOK, 6)
	a.users = nil
	step(AllowedFor+1, http.StatusUnauthorized, 7)
}

// A client that cannot be checked is refused, the reason is reported, and the next request is
// checked again.
func TestAReviewThatFails(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "authentication.k8s.io", Resource: "tokenreviews"}, "",
		errors.New("not yours"))
	for name, test := range map[string]struct {
		fails error
		on    string
		want  string
	}{
		"no right": {forbidden, "",
			"asking whose a token is: tokenreviews.authentication.k8s.io is forbidden: not yours: bind the ClusterRole " +
				"system:auth-delegator to this user"},
		"not reachable":   {errors.New("connection refused"), "", "asking whose a token is: connection refused"},
		"the second only": {errors.New("connection refused"), "subjectaccessreviews", "asking what prometheus may do: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &authority{users: []string{"prometheus"}, readers: map[string]string{"prometheus": "/metrics"}, fails: test.fails, failsOn: test.on}
			var problems []string
			handler := newGuard(a.client(), func(err error) { problems = append(problems, err.Error()) }, clock.RealClock{}).Protect(page)
			w := get(handler, "/metrics", "Bearer prometheus")
			if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), test.fails.Error()) {
				t.Errorf("got %d %q", w.Code, w.Body)
			}
			if len(problems) != 1 || problems[0] != test.want {
				t.Errorf("told %q, want %q", problems, test.want)
			}
			a.fails = nil
			if w := get(handler, "/metrics", "Bearer prometheus"); w.Code != http.StatusOK {
				t.Errorf("then got %d %q", w.Code, w.Body)
			}
		})
	}
}

func TestManyAskAtOnce(t *testing.T) {
	a := &authority{users: []string{"prometheus"}, readers: map[string]string{"prometheus": "/metrics"}}
	handler := newGuard(a.client(), nil, clock.RealClock{}).Protect(page)
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			token, want := "prometheus", http.StatusOK
			if i%2 == 0 {
				token, want = "nobody", http.StatusUnauthorized
			}
			if w := get(handler, "/metrics", "Bearer "+token); w.Code != want {
				t.Errorf("%s gets %d", token, w.Code)
			}
		})
	}
	group.Wait()
}
