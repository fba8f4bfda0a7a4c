package reconcile

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// server is as much of an API server as the Scales of Deployments and Balancers need.
type server struct {
	*httptest.Server

	mu      sync.Mutex
	scales  map[string]*autoscalingv1.Scale // by name
	refuse  map[string]int                  // the code that answers a write, by name
	failing map[string]int                  // the code that answers everything, in plain text, by name
	writes  []string                        // in order

	// gate is passed by every request before it is answered, several at a time; nil is always open.
	gate func(*http.Request)
}

func newServer() *server {
	s := &server{scales: map[string]*autoscalingv1.Scale{}, refuse: map[string]int{}}
	s.Server = httptest.NewServer(s)
	return s
}

func (s *server) config() *rest.Config { return &rest.Config{Host: s.URL} }

// deploy makes a Deployment in namespace shop whose pods have the label target of its name; a
// Balancer is one as well.
func (s *server) deploy(name string, replicas int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scales[name] = &autoscalingv1.Scale{
		TypeMeta:   metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", UID: "1", ResourceVersion: "1"},
		Spec:       autoscalingv1.ScaleSpec{Replicas: replicas},
		Status:     autoscalingv1.ScaleStatus{Replicas: replicas, Selector: "target=" + name},
	}
}

// change lets a test change the server.
func (s *server) change(how func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	how()
}

// written takes the writes made since it was last asked.
func (s *server) written() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := strings.Join(s.writes, " ")
	s.writes = nil
	return out
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	gate := s.gate
	s.mu.Unlock()
	if gate != nil {
		gate(r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/apis/evenkeel.dev/v1alpha1/namespaces/shop/balancers/")
	path = strings.TrimPrefix(path, "/apis/apps/v1/namespaces/shop/deployments/")
	name := strings.TrimSuffix(path, "/scale")
	found, ok := s.scales[name]
	switch {
	case r.URL.Path == "/api":
		reply(w, metav1.APIVersions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIVersions"}, Versions: []string{"v1"}})
	case r.URL.Path == "/api/v1":
		reply(w, metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: "v1",
			APIResources: []metav1.APIResource{{Name: "pods", Kind: "Pod", Namespaced: true}},
		})
	case r.URL.Path == "/apis":
		apps := metav1.GroupVersionForDiscovery{GroupVersion: "apps/v1", Version: "v1"}
		evenkeel := metav1.GroupVersionForDiscovery{GroupVersion: "evenkeel.dev/v1alpha1", Version: "v1alpha1"}
		reply(w, metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}, Groups: []metav1.APIGroup{
			{Name: "apps", Versions: []metav1.GroupVersionForDiscovery{apps}, PreferredVersion: apps},
			{Name: "evenkeel.dev", Versions: []metav1.GroupVersionForDiscovery{evenkeel}, PreferredVersion: evenkeel},
		}})
	case r.URL.Path == "/apis/evenkeel.dev/v1alpha1":
		reply(w, metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: "evenkeel.dev/v1alpha1",
			APIResources: []metav1.APIResource{
				{Name: "balancers", Kind: "Balancer", Namespaced: true},
				{Name: "balancers/scale", Kind: "Scale", Group: "autoscaling", Version: "v1", Namespaced: true},
			},
		})
	case r.URL.Path == "/apis/apps/v1":
		reply(w, metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: "apps/v1", APIResources: []metav1.APIResource{
				{Name: "deployments", Kind: "Deployment", Namespaced: true},
				{Name: "deployments/scale", Kind: "Scale", Group: "autoscaling", Version: "v1", Namespaced: true},
			},
		})
	case s.failing[name] != 0:
		http.Error(w, "no answer", s.failing[name])
	case !ok:
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	case r.Method == http.MethodPut && s.refuse[name] == http.StatusConflict:
		fail(w, http.StatusConflict, metav1.StatusReasonConflict)
	case r.Method == http.MethodPut && s.refuse[name] != 0:
		fail(w, s.refuse[name], metav1.StatusReasonForbidden)
	case r.Method == http.MethodPut:
		s.put(w, r, found)
	default:
		reply(w, found)
	}
}

func (s *server) put(w http.ResponseWriter, r *http.Request, found *autoscalingv1.Scale) {
	var wanted autoscalingv1.Scale
	if err := json.NewDecoder(r.Body).Decode(&wanted); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	found.Spec.Replicas, found.ResourceVersion = wanted.Spec.Replicas, found.ResourceVersion+"1"
	s.writes = append(s.writes, fmt.Sprintf("%s=%d", found.Name, wanted.Spec.Replicas))
	reply(w, found)
}

func fail(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: reason, Code: int32(code),
		Message: string(reason), Details: &metav1.StatusDetails{Kind: "deployments"},
	})
}

func reply(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}
