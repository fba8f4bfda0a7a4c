package controller_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

const (
	leases = "/apis/coordination.k8s.io/v1/namespaces/evenkeel/leases"
	lease  = leases + "/evenkeel-controller"
)

// server is as much of an API server as a Manager needs with controllers of ConfigMaps: there is
// one of those.
type server struct {
	*httptest.Server
	open chan struct{} // closed once ConfigMaps may be listed

	mu     sync.Mutex
	lease  *coordinationv1.Lease
	broken bool          // the lease cannot be acquired
	late   bool          // a renewal arrives just before the lease is released, once
	cut    chan struct{} // closed while ConfigMaps are refused, which ends their watches
	notes  []string
	// secrets reports that there are Secrets, which may be read unless hidden.
	secrets, hidden bool
	denied          int // times they were asked for while hidden
}

func newServer(t testing.TB) *server {
	s := &server{open: make(chan struct{}), cut: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, metav1.APIVersions{TypeMeta: kind("v1", "APIVersions"), Versions: []string{"v1"}})
	})
	mux.HandleFunc("GET /apis", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, metav1.APIGroupList{TypeMeta: kind("v1", "APIGroupList")})
	})
	mux.HandleFunc("GET /api/v1", func(w http.ResponseWriter, _ *http.Request) {
		all := []metav1.APIResource{{Name: "configmaps", Kind: "ConfigMap", Namespaced: true}}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.secrets {
			all = append(all, metav1.APIResource{Name: "secrets", Kind: "Secret", Namespaced: true})
		}
		reply(w, http.StatusOK, metav1.APIResourceList{TypeMeta: kind("v1", "APIResourceList"), GroupVersion: "v1", APIResources: all})
	})
	mux.HandleFunc("GET /api/v1/secrets", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.hidden {
			s.denied++
			fail(w, http.StatusForbidden, metav1.StatusReasonForbidden)
			return
		}
		reply(w, http.StatusOK, v1.SecretList{TypeMeta: kind("v1", "SecretList")})
	})
	mux.HandleFunc("GET /api/v1/configmaps", s.configMaps)
	mux.HandleFunc("GET /apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/evenkeel-controller", s.getLease)
	mux.HandleFunc("POST "+leases, s.putLease)
	mux.HandleFunc("POST /apis/coordination.k8s.io/v1/namespaces/nowhere/leases", func(w http.ResponseWriter, _ *http.Request) {
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	})
	mux.HandleFunc("PUT "+lease, s.putLease)
	mux.HandleFunc("POST /apis/events.k8s.io/v1/namespaces/evenkeel/events", s.postEvent)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

func (s *server) config() *rest.Config {
	return &rest.Config{Host: s.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// refuse takes the right to list and watch ConfigMaps away, or gives it back.
func (s *server) refuse(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if yes {
		close(s.cut)
	} else {
		s.cut = make(chan struct{})
	}
}

func (s *server) configMaps(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	cut := s.cut
	s.mu.Unlock()
	select {
	case <-cut:
		fail(w, http.StatusForbidden, metav1.StatusReasonForbidden)
		return
	default:
	}
	switch query := r.URL.Query(); {
	case query.Get("sendInitialEvents") != "":
		fail(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
	case query.Get("watch") != "":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		select {
		case <-cut:
		case <-r.Context().Done():
		}
	default:
		select {
		case <-s.open:
		case <-r.Context().Done():
		}
		reply(w, http.StatusOK, v1.ConfigMapList{TypeMeta: kind("v1", "ConfigMapList"), Items: []v1.ConfigMap{{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "thing", UID: "1", ResourceVersion: "1", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "somebody"}},
		}, Data: map[string]string{"a": "b"}}}})
	}
}

func (s *server) getLease(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.broken:
		fail(w, http.StatusInternalServerError, metav1.StatusReasonInternalError)
	case s.lease == nil:
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	default:
		reply(w, http.StatusOK, s.lease)
	}
}

func (s *server) putLease(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var wanted coordinationv1.Lease
	if err := json.NewDecoder(r.Body).Decode(&wanted); err != nil || s.broken {
		fail(w, http.StatusInternalServerError, metav1.StatusReasonInternalError)
		return
	}
	version := 0
	if s.late && ptr.Deref(wanted.Spec.HolderIdentity, "") == "" {
		s.late, s.lease.ResourceVersion = false, s.lease.ResourceVersion+"0"
	}
	if s.lease != nil {
		if wanted.ResourceVersion != s.lease.ResourceVersion {
			fail(w, http.StatusConflict, metav1.StatusReasonConflict)
			return
		}
		version, _ = strconv.Atoi(s.lease.ResourceVersion) // it is ours
	}
	wanted.TypeMeta = kind("coordination.k8s.io/v1", "Lease")
	wanted.ResourceVersion = strconv.Itoa(version + 1)
	s.lease = &wanted
	reply(w, http.StatusOK, s.lease)
}

func (s *server) postEvent(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var event eventsv1.Event
	if err := json.NewDecoder(r.Body).Decode(&event); err != nil {
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
		return
	}
	s.notes = append(s.notes, event.Note)
	event.TypeMeta = kind("events.k8s.io/v1", "Event")
	reply(w, http.StatusCreated, event)
}

// told is what events say.
func (s *server) told() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.notes, "\n")
}

// holder is who holds the lease.
func (s *server) holder() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease == nil || s.lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *s.lease.Spec.HolderIdentity
}

func kind(apiVersion, name string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: apiVersion, Kind: name}
}

func fail(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	reply(w, code, metav1.Status{TypeMeta: kind("v1", "Status"), Status: metav1.StatusFailure, Reason: reason, Message: string(reason),
		Code: int32(code)})
}

func reply(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}
