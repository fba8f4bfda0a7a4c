package reconcile

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// server is an API server as far as the controllers need one: it stores objects, counts versions and
// generations, keeps to preconditions, merges patches and sends what happens to those who watch.
type server struct {
	*httptest.Server

	mu       sync.Mutex
	version  int64
	objects  map[string]*unstructured.Unstructured // by path
	watchers []*watcher
	writes   []string // of local objects: "POST deployments/web 3"
	// answers may answer a request in place of the server: it returns a code other than 0.
	answers func(r *http.Request) (code int, status metav1.Status)
	// wrote is called after a write and before it is answered, if it is set.
	wrote func(r *http.Request)
	// stored is called when an object is stored, with the server locked.
	stored func(s *server, path string, o *unstructured.Unstructured)
	// able is how many pods it is able to run, quota how many may be created, and pods how many
	// there are.
	able, quota, pods int
}

type watcher struct {
	prefix, selector string
	events           chan map[string]any
}

func newServer() *server {
	s := &server{objects: map[string]*unstructured.Unstructured{}}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	s.put("/api/v1/namespaces/kube-system", map[string]any{"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": "kube-system", "uid": s.URL}})
	return s
}

func (s *server) authority() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// kinds are those that are listed.
var kinds = map[string]string{
	"pods": "Pod", "secrets": "Secret", "replicasets": "ReplicaSet", "deployments": "Deployment", "nodes": "Node",
	"federatedreplicasets": "FederatedReplicaSet", "memberclusters": "MemberCluster", "events": "Event", "namespaces": "Namespace",
}

func (s *server) put(path string, content map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(path, &unstructured.Unstructured{Object: content})
}

// store stores an object as it is, and tells those who watch.
func (s *server) store(path string, o *unstructured.Unstructured) {
	before := s.objects[path]
	s.version++
	o.SetResourceVersion(strconv.FormatInt(s.version, 10))
	if o.GetUID() == "" {
		o.SetUID(types.UID(fmt.Sprint("uid-", s.version)))
	}
	if created := o.GetCreationTimestamp(); created.IsZero() {
		o.SetCreationTimestamp(metav1.Now())
	}
	if before == nil || !apiequality.Semantic.DeepEqual(before.Object["spec"], o.Object["spec"]) || o.GetDeletionTimestamp() != nil &&
		before.GetDeletionTimestamp() == nil {
		o.SetGeneration(o.GetGeneration() + 1)
	}
	what := "MODIFIED"
	if before == nil {
		what = "ADDED"
	}
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 {
		what = "DELETED"
	}
	s.objects[path] = o
	told := o
	if what == "DELETED" {
		if before != nil { // an API server says what was there immediately before
			told = before.DeepCopy()
			told.SetResourceVersion(o.GetResourceVersion())
		}
		delete(s.objects, path)
	}
	s.tell(what, path, told)
	if s.stored != nil {
		s.stored(s, path, o)
	}
}

// observed has the controllers of a local object say that they have acted on it.
func (s *server) observed(path string) {
	o := s.objects[path]
	was, _, _ := unstructured.NestedFieldNoCopy(o.Object, "status", "observedGeneration")
	if number(was) == o.GetGeneration() {
		return
	}
	o = o.DeepCopy()
	_ = unstructured.SetNestedField(o.Object, o.GetGeneration(), "status", "observedGeneration")
	s.store(path, o)
}

func (s *server) tell(what, path string, o *unstructured.Unstructured) {
	for _, w := range s.watchers {
		if w.sees(path, o) {
			w.events <- map[string]any{"type": what, "object": o.DeepCopy().Object}
		}
	}
}

func (w *watcher) sees(path string, o *unstructured.Unstructured) bool {
	parts, kind := strings.Split(path, "/"), w.prefix[strings.LastIndex(w.prefix, "/")+1:]
	_, has := o.GetLabels()[w.selector] // it is the key of a label
	return parts[len(parts)-2] == kind && (w.selector == "" || has)
}

func (s *server) remove(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.objects[path]; o != nil {
		o = o.DeepCopy()
		o.SetDeletionTimestamp(new(metav1.Now()))
		s.store(path, o)
	}
}

// get returns a copy of an object; nil if there is none.
func (s *server) get(path string) *unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.objects[path]; o != nil {
		return o.DeepCopy()
	}
	return nil
}

// change changes an object as somebody else would.
func (s *server) change(path string, how func(o *unstructured.Unstructured)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[path].DeepCopy()
	how(o)
	s.store(path, o)
}

// written are the writes since it was last asked.
func (s *server) written() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := strings.Join(s.writes, ", ")
	s.writes = nil
	return out
}

func (s *server) answer(how func(r *http.Request) (int, metav1.Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = how
}

func reply(w http.ResponseWriter, code int, o any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(o)
}

func refuse(w http.ResponseWriter, code int, status metav1.Status) {
	status.TypeMeta, status.Status, status.Code = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, metav1.StatusFailure,
		int32(code) // an HTTP status
	reply(w, code, status)
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	answers := s.answers
	s.mu.Unlock()
	if answers != nil {
		if code, status := answers(r); code != 0 {
			refuse(w, code, status)
			return
		}
	}
	parts := strings.Split(r.URL.Path, "/")
	_, list := kinds[parts[len(parts)-1]]
	switch {
	case r.URL.Path == "/readyz":
		_, _ = w.Write([]byte("ok"))
	case r.URL.Path == "/version":
		reply(w, http.StatusOK, map[string]string{"gitVersion": "v1.36.3"})
	case r.URL.Query().Get("watch") != "":
		s.watch(w, r)
	case r.Method == http.MethodGet && list:
		s.list(w, r, parts[len(parts)-1])
	case r.Method == http.MethodGet:
		if o := s.get(r.URL.Path); o != nil {
			reply(w, http.StatusOK, o.Object)
			return
		}
		refuse(w, http.StatusNotFound, metav1.Status{Reason: metav1.StatusReasonNotFound, Message: "not found"})
	default:
		s.write(w, r)
		if s.wrote != nil {
			s.wrote(r)
		}
	}
}

func (s *server) list(w http.ResponseWriter, r *http.Request, kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	see := &watcher{prefix: r.URL.Path, selector: r.URL.Query().Get("labelSelector")}
	items := []any{}
	for path, o := range s.objects {
		if see.sees(path, o) {
			items = append(items, o.Object)
		}
	}
	group := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path[:strings.LastIndex(r.URL.Path, "/")], "/apis/"), "/api/")
	reply(w, http.StatusOK, map[string]any{
		"apiVersion": group, "kind": kinds[kind] + "List", "metadata": map[string]any{"resourceVersion": strconv.FormatInt(s.version, 10)},
		"items": items,
	})
}

func (s *server) watch(w http.ResponseWriter, r *http.Request) {
	see := &watcher{prefix: r.URL.Path, selector: r.URL.Query().Get("labelSelector"), events: make(chan map[string]any, 10000)}
	kind := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	version := strings.TrimPrefix(strings.TrimPrefix(strings.TrimSuffix(r.URL.Path, "/"+kind), "/apis/"), "/api/")
	since, _ := strconv.ParseInt(r.URL.Query().Get("resourceVersion"), 10, 64)
	initial := r.URL.Query().Get("sendInitialEvents") == "true"
	s.mu.Lock()
	for path, o := range s.objects {
		at, _ := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
		if see.sees(path, o) && (initial || at > since) {
			see.events <- map[string]any{"type": "ADDED", "object": o.DeepCopy().Object}
		}
	}
	if initial {
		see.events <- map[string]any{"type": "BOOKMARK", "object": map[string]any{"apiVersion": version, "kind": kinds[kind],
			"metadata": map[string]any{
				"resourceVersion": strconv.FormatInt(s.version, 10), "annotations": map[string]any{metav1.InitialEventsAnnotationKey: "true"},
			}}}
	}
	s.watchers = append(s.watchers, see)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.watchers = slices.DeleteFunc(s.watchers, func(o *watcher) bool { return o == see })
	}()
	w.Header().Set("Content-Type", "application/json")
	w.(http.Flusher).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case e := <-see.events:
			if json.NewEncoder(w).Encode(e) != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	}
}

// write creates, patches or deletes.
func (s *server) write(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body)
	s.mu.Lock()
	defer s.mu.Unlock()
	path := r.URL.Path
	if r.Method == http.MethodPost {
		path += "/" + (&unstructured.Unstructured{Object: body}).GetName()
	}
	path, sub := strings.CutSuffix(path, "/status")
	parts := strings.Split(path, "/")
	kind, name := parts[len(parts)-2], parts[len(parts)-1]
	if kind == "replicasets" || kind == "deployments" {
		n, _, _ := unstructured.NestedFieldNoCopy(body, "spec", "replicas")
		s.writes = append(s.writes, strings.TrimSpace(fmt.Sprintf("%s %s/%s %v", r.Method, kind, name, n)))
	}
	before := s.objects[path]
	if before == nil && r.Method != http.MethodPost && r.Header.Get("Content-Type") != string(types.ApplyYAMLPatchType) {
		refuse(w, http.StatusNotFound, metav1.Status{Reason: metav1.StatusReasonNotFound, Message: name + " not found",
			Details: &metav1.StatusDetails{Kind: kind}})
		return
	}
	if r.Method == http.MethodDelete {
		if uid, _, _ := unstructured.NestedString(body, "preconditions", "uid"); uid != "" && uid != string(before.GetUID()) {
			refuse(w, http.StatusConflict, metav1.Status{Reason: metav1.StatusReasonConflict})
			return
		}
		o := before.DeepCopy()
		o.SetDeletionTimestamp(new(metav1.Now()))
		s.store(path, o)
		reply(w, http.StatusOK, o.Object)
		return
	}
	o := &unstructured.Unstructured{Object: map[string]any{}}
	if before != nil {
		o = before.DeepCopy()
		if code, status := precondition(before, &unstructured.Unstructured{Object: body}); code != 0 {
			refuse(w, code, status)
			return
		}
	}
	if sub {
		body = map[string]any{"status": body["status"]}
	}
	if r.Method == http.MethodPut {
		body["status"] = o.Object["status"]
		if body["status"] == nil {
			delete(body, "status")
		}
		o.Object = map[string]any{}
	}
	o.Object = merge(o.Object, body).(map[string]any)
	if before != nil && apiequality.Semantic.DeepEqual(before.Object, o.Object) {
		reply(w, http.StatusOK, o.Object)
		return
	}
	if parts[len(parts)-4] == "namespaces" {
		o.SetNamespace(parts[len(parts)-3])
	}
	s.store(path, o)
	reply(w, http.StatusOK, o.Object)
}

// precondition says what keeps a patch from being made.
func precondition(before, patch *unstructured.Unstructured) (int, metav1.Status) {
	invalid := func(field string) (int, metav1.Status) {
		return http.StatusUnprocessableEntity, metav1.Status{Reason: metav1.StatusReasonInvalid, Message: field + ": field is immutable",
			Details: &metav1.StatusDetails{
				Causes: []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Field: field, Message: "field is immutable"}},
			}}
	}
	if v := patch.GetResourceVersion(); v != "" && v != before.GetResourceVersion() {
		return http.StatusConflict, metav1.Status{Reason: metav1.StatusReasonConflict, Message: "the object has been modified"}
	}
	if uid := patch.GetUID(); uid != "" && uid != before.GetUID() {
		return invalid("metadata.uid")
	}
	has, _, _ := unstructured.NestedMap(before.Object, "spec", "selector")
	if wants, there, _ := unstructured.NestedMap(patch.Object, "spec", "selector"); there && !apiequality.Semantic.DeepEqual(has, wants) &&
		before.GetKind() != "FederatedReplicaSet" {
		return invalid("spec.selector")
	}
	return 0, metav1.Status{}
}

// merge is RFC 7386.
func merge(into, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	out, ok := into.(map[string]any)
	if !ok {
		out = map[string]any{}
	}
	for key, value := range p {
		if value == nil {
			delete(out, key)
			continue
		}
		out[key] = merge(out[key], value)
	}
	return out
}
