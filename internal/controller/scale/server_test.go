package scale_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// server answers what a Client asks an API server: which kinds there are, and their Scales.
type server struct {
	*httptest.Server

	mu         sync.Mutex
	kinds      map[string][]metav1.APIResource // by group/version
	scales     map[string]*autoscalingv1.Scale // by path
	answers    map[string]metav1.Status        // to a verb and path, in place of the usual one
	discovered int                             // times the list of groups was read
}

func newServer() *server {
	s := &server{
		kinds: map[string][]metav1.APIResource{
			"v1": {{Name: "nodes", Kind: "Node"}, {Name: "configmaps", Kind: "ConfigMap", Namespaced: true}},
			"apps/v1": {
				{Name: "deployments", Kind: "Deployment", Namespaced: true},
				{Name: "deployments/scale", Kind: "Scale", Group: "autoscaling", Version: "v1", Namespaced: true},
				{Name: "daemonsets", Kind: "DaemonSet", Namespaced: true},
			},
		},
		scales: map[string]*autoscalingv1.Scale{}, answers: map[string]metav1.Status{},
	}
	s.Server = httptest.NewServer(s)
	return s
}

func (s *server) config() *rest.Config { return &rest.Config{Host: s.URL} }

// serve begins to serve a kind with a Scale, in a version.
func (s *server) serve(groupVersion, kind, resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kinds[groupVersion] = append(s.kinds[groupVersion], metav1.APIResource{Name: resource, Kind: kind, Namespaced: true},
		metav1.APIResource{Name: resource + "/scale", Kind: "Scale", Group: "autoscaling", Version: "v1", Namespaced: true})
}

// withdraw ceases to serve a version with all of its objects.
func (s *server) withdraw(groupVersion string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.kinds, groupVersion)
	for path := range s.scales {
		if strings.HasPrefix(path, "/apis/"+groupVersion+"/") {
			delete(s.scales, path)
		}
	}
}

// add makes an object of a resource, such as apps/v1/deployments, in namespace shop.
func (s *server) add(groupVersion, resource, name, selector string, replicas int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scales[path(groupVersion, resource, name)] = &autoscalingv1.Scale{
		TypeMeta:   metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", UID: "uid-1", ResourceVersion: "1"},
		Spec:       autoscalingv1.ScaleSpec{Replicas: replicas},
		Status:     autoscalingv1.ScaleStatus{Replicas: replicas, Selector: selector},
	}
}

// answer has a status be the answer to a verb.
func (s *server) answer(verb, path string, with metav1.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	with.TypeMeta, with.Status = status, metav1.StatusFailure
	s.answers[verb+" "+path] = with
}

var status = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}

func (s *server) discoveries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.discovered
}

func path(groupVersion, resource, name string) string {
	return "/apis/" + groupVersion + "/namespaces/shop/" + resource + "/" + name + "/scale"
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if set, ok := s.answers[r.Method+" "+r.URL.Path]; ok {
		reply(w, int(set.Code), set)
		return
	}
	groupVersion := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/apis/"), "/api/")
	if list, ok := s.kinds[groupVersion]; ok {
		reply(w, http.StatusOK, metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: groupVersion, APIResources: list,
		})
		return
	}
	found, ok := s.scales[r.URL.Path]
	switch {
	case r.URL.Path == "/api":
		reply(w, http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIVersions"}, Versions: []string{"v1"}})
	case r.URL.Path == "/apis":
		s.discovered++
		reply(w, http.StatusOK, s.groups())
	case ok && r.Method == http.MethodGet:
		reply(w, http.StatusOK, found)
	case ok && r.Method == http.MethodPut:
		s.put(w, r, found)
	case strings.Contains(r.URL.Path, "/deployments/"), strings.Contains(r.URL.Path, "/futures/"):
		reply(w, http.StatusNotFound, metav1.Status{
			TypeMeta: status, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound,
			Details: &metav1.StatusDetails{Kind: "deployments"},
		})
	default:
		http.NotFound(w, r)
	}
}

func (s *server) put(w http.ResponseWriter, r *http.Request, found *autoscalingv1.Scale) {
	var wanted autoscalingv1.Scale
	if err := json.NewDecoder(r.Body).Decode(&wanted); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if wanted.ResourceVersion != found.ResourceVersion {
		reply(w, http.StatusConflict, metav1.Status{TypeMeta: status, Status: metav1.StatusFailure, Reason: metav1.StatusReasonConflict,
			Code: http.StatusConflict})
		return
	}
	version, err := strconv.Atoi(found.ResourceVersion)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	found.Spec.Replicas, found.ResourceVersion = wanted.Spec.Replicas, fmt.Sprint(version+1)
	reply(w, http.StatusOK, found)
}

// groups has for each the first version in order as the preferred one.
func (s *server) groups() metav1.APIGroupList {
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}}
	for _, groupVersion := range sorted(s.kinds) {
		group, version, ok := strings.Cut(groupVersion, "/")
		if !ok {
			continue
		}
		served := metav1.GroupVersionForDiscovery{GroupVersion: groupVersion, Version: version}
		i := slices.IndexFunc(list.Groups, func(g metav1.APIGroup) bool { return g.Name == group })
		if i < 0 {
			list.Groups = append(list.Groups, metav1.APIGroup{Name: group, PreferredVersion: served})
			i = len(list.Groups) - 1
		}
		list.Groups[i].Versions = append(list.Groups[i].Versions, served)
	}
	return list
}

func sorted(kinds map[string][]metav1.APIResource) []string {
	var out []string
	for groupVersion := range kinds {
		out = append(out, groupVersion)
	}
	slices.Sort(out)
	return out
}

func reply(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}
