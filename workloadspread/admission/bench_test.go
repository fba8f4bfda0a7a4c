package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/workloadspread/store"
)

// apiServer is as much of an API server as admissions need: it lists WorkloadSpreads once, stores the
// status of web if that has not changed since it was read, and has the Deployment web and its ReplicaSet.
type apiServer struct {
	mu      sync.Mutex
	spreads []v1alpha1.WorkloadSpread // the last one is web
	version int
	objects map[string]client.Object // by path
	writes  atomic.Int32
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	reply := func(code int, body any) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(body)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch query := r.URL.Query(); {
	case query.Get("sendInitialEvents") == "true":
		reply(http.StatusUnprocessableEntity, apierrors.NewInvalid(schema.GroupKind{}, "", nil).Status())
	case query.Get("watch") != "":
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		a.mu.Unlock()
		<-r.Context().Done()
		a.mu.Lock()
	case strings.HasSuffix(r.URL.Path, "/workloadspreads"):
		list := v1alpha1.WorkloadSpreadList{Items: a.spreads}
		list.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: "WorkloadSpreadList"}
		list.ResourceVersion = "100"
		reply(http.StatusOK, list)
	case r.Method == http.MethodPut:
		var o v1alpha1.WorkloadSpread
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
			reply(http.StatusBadRequest, apierrors.NewBadRequest(err.Error()).Status())
			return
		}
		web := &a.spreads[len(a.spreads)-1]
		if o.ResourceVersion != web.ResourceVersion {
			reply(http.StatusConflict, apierrors.NewConflict(schema.GroupResource{}, o.Name, nil).Status())
			return
		}
		a.version++
		a.writes.Add(1)
		o.ResourceVersion = fmt.Sprint(a.version)
		*web = o
		reply(http.StatusOK, o)
	case strings.HasSuffix(r.URL.Path, "/workloadspreads/web"):
		reply(http.StatusOK, a.spreads[len(a.spreads)-1])
	case a.objects[r.URL.Path] != nil:
		reply(http.StatusOK, a.objects[r.URL.Path])
	default:
		reply(http.StatusNotFound, apierrors.NewNotFound(schema.GroupResource{}, r.URL.Path).Status())
	}
}

// served are the addresses of two servers of webhooks, each with a cache, whose API server has so many
// WorkloadSpreads in one namespace. The pods of web belong to the last one.
func served(b *testing.B, spreads int) (urls []string, _ *apiServer) {
	b.Helper()
	api := &apiServer{version: 1000, objects: map[string]client.Object{}}
	for i := range spreads {
		name := fmt.Sprintf("other-%d", i)
		if i == spreads-1 {
			name = "web"
		}
		o := spreadOf(b, name, strings.ReplaceAll(twoSubsets, "name: web", "name: "+name))
		o.Spec.Subsets[0].MaxReplicas.IntVal = 1 << 30
		o.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.KindWorkloadSpread}
		o.ResourceVersion, o.Generation = fmt.Sprint(i+1), 1
		api.spreads = append(api.spreads, *o)
	}
	for i, o := range deployment(5) {
		kind := []string{"Deployment", "ReplicaSet"}[i]
		o.GetObjectKind().SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind(kind))
		api.objects["/apis/apps/v1/namespaces/shop/"+strings.ToLower(kind)+"s/"+o.GetName()] = o
	}
	server := httptest.NewServer(api)
	b.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	scheme := runtime.NewScheme()
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), meta.RESTScopeNamespace)
	mapper.Add(schema.GroupVersionKind{Group: v1alpha1.Group, Version: v1alpha1.Version, Kind: v1alpha1.KindWorkloadSpread},
		meta.RESTScopeNamespace)
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		b.Fatal(err)
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		b.Fatal(err)
	}
	config := &rest.Config{Host: server.URL, QPS: -1}
	for range 2 {
		watching, err := cache.New(config, cache.Options{Scheme: scheme, Mapper: mapper})
		if err != nil {
			b.Fatal(err)
		}
		live, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
		if err != nil {
			b.Fatal(err)
		}
		s := New(watching, live, store.New(watching, live, nil), Options{})
		if err := s.Watch(b.Context(), watching); err != nil {
			b.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = watching.Start(ctx) }()
		if !watching.WaitForCacheSync(ctx) {
			b.Fatal("the cache does not fill")
		}
		mux := http.NewServeMux()
		for path, handler := range s.Handlers() {
			mux.Handle(path, handler)
		}
		web := httptest.NewServer(mux)
		urls = append(urls, web.URL)
		b.Cleanup(func() { stop(); <-ended; web.Close(); server.CloseClientConnections() })
	}
	return urls, api
}

// BenchmarkCreatePod is the call of a webhook, over HTTP on loopback, about a pod that is counted: the
// status is written to an API server that answers at once. Two servers are asked in turn, and neither sees what the other
// has written before it has a conflict. Nothing is simulated.
func BenchmarkCreatePod(b *testing.B) {
	for _, spreads := range []int{1, 100, 1000} {
		for _, clients := range []int{1, 10} {
			b.Run(fmt.Sprintf("spreads=%d/clients=%d", spreads, clients), func(b *testing.B) {
				urls, api := served(b, spreads)
				transport := &http.Transport{MaxIdleConnsPerHost: clients}
				defer transport.CloseIdleConnections()
				var next atomic.Int64
				var mu sync.Mutex
				var took []time.Duration
				b.ReportAllocs()
				b.ResetTimer()
				var done sync.WaitGroup
				for range clients {
					done.Go(func() {
						for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
							begin := time.Now()
							createOne(b, &http.Client{Transport: transport}, urls[n%2], n)
							mu.Lock()
							took = append(took, time.Since(begin))
							mu.Unlock()
						}
					})
				}
				done.Wait()
				b.StopTimer()
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
				b.ReportMetric(float64(api.writes.Load())/float64(b.N), "writes/op")
			})
		}
	}
}

func createOne(b *testing.B, c *http.Client, url string, n int64) {
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: types.UID(fmt.Sprint(n)), Namespace: "shop", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(podOfWeb)},
		},
	})
	if err != nil {
		b.Error(err)
		return
	}
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url+PathMutatePods+"?timeout=10s", bytes.NewReader(body))
	if err != nil {
		b.Error(err)
		return
	}
	response, err := c.Do(r)
	if err != nil {
		b.Error(err)
		return
	}
	defer func() { _ = response.Body.Close() }()
	if text, err := io.ReadAll(response.Body); err != nil || !bytes.Contains(text, []byte(`"patch":`)) {
		b.Errorf("%s, %v", text, err)
	}
}
