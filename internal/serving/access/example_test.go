package access_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/internal/serving/access"
)

// An API server that knows one token, whose user may get /metrics.
func apiServer() *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /apis/authentication.k8s.io/v1/tokenreviews", func(w http.ResponseWriter, r *http.Request) {
		var review authenticationv1.TokenReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		review.Status.Authenticated = review.Spec.Token == "s3cret"
		review.Status.User.Username = "prometheus"
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	})
	mux.HandleFunc("POST /apis/authorization.k8s.io/v1/subjectaccessreviews", func(w http.ResponseWriter, r *http.Request) {
		var review authorizationv1.SubjectAccessReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		review.Status.Allowed = review.Spec.User == "prometheus" && review.Spec.NonResourceAttributes.Path == "/metrics"
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	})
	return httptest.NewServer(mux)
}

// Metrics for those only whom the API server lets get them.
func Example() {
	server := apiServer()
	defer server.Close()
	config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	guard, err := access.New(config, func(err error) { fmt.Println(err) })
	if err != nil {
		fmt.Println(err)
		return
	}
	metrics := guard.Protect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "up 1") }))
	for _, token := range []string{"", "Bearer guess", "Bearer s3cret"} {
		request := httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody)
		request.Header.Set("Authorization", token)
		answer := httptest.NewRecorder()
		metrics.ServeHTTP(answer, request)
		fmt.Printf("%d %s", answer.Code, answer.Body)
	}
	// Output:
	// 401 Unauthorized: a bearer token is needed
	// 401 Unauthorized: the token is not valid
	// 200 up 1
}
