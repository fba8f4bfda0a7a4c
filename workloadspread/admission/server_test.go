package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/workloadspread"
	"github.com/evenkeel/evenkeel/workloadspread/store"
)

// webhookHarness is an API server with objects of namespace shop, and a Server that answers its webhooks.
type webhookHarness struct {
	client.Client
	*Server
	t        testing.TB
	events   chan string
	mu       sync.Mutex
	failing  map[string]error // answers to gets and lists, by the type of the object
	gets     map[string]int
	requests int
}

func newWebhookHarness(t testing.TB, o Options, objects ...client.Object) *webhookHarness {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w := &webhookHarness{t: t, failing: map[string]error{}, gets: map[string]int{}}
	fails := func(object runtime.Object) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		kind := fmt.Sprintf("%T", object)
		if k := object.GetObjectKind().GroupVersionKind().Kind; k != "" {
			kind = k
		}
		w.gets[kind]++
		return w.failing[kind]
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"Deployment", "ReplicaSet", "StatefulSet"} {
		mapper.Add(appsv1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	w.Client = fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithStatusSubresource(&v1alpha1.WorkloadSpread{}).
		WithObjects(objects...).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
				if err := fails(object); err != nil {
					return err
				}
				return c.Get(ctx, key, object, opts...)
			},
		}).Build()
	recorder := events.NewFakeRecorder(1000)
	w.events, o.Events = recorder.Events, recorder
	w.Server = New(w.Client, w.Client, store.New(w.Client, w.Client, nil), o)
	return w
}

// objects of YAML documents.
func decoded[T client.Object](t testing.TB, into T, text string) T {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatal(err)
	}
	if into.GetNamespace() == "" {
		into.SetNamespace("shop")
	}
	return into
}

func spreadOf(t testing.TB, name, spec string) *v1alpha1.WorkloadSpread {
	return decoded(t, &v1alpha1.WorkloadSpread{}, "metadata: {name: "+name+", uid: uid-"+name+"}\nspec: "+spec)
}

// deployment is the Deployment web with its ReplicaSet web-1.
func deployment(replicas int32) []client.Object {
	labels := map[string]string{"app": "web"}
	template := v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "web"}}}}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-web"},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}
	r := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "uid-web-1",
			OwnerReferences: []metav1.OwnerReference{controlledBy("Deployment", "web")}},
		Spec: appsv1.ReplicaSetSpec{Replicas: &replicas},
	}
	return []client.Object{d, r}
}

func controlledBy(kind, name string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID("uid-" + name), Controller: ptr.To(true)}
}

const podOfWeb = `{"metadata":{"generateName":"web-1-","labels":{"app":"web","pod-template-hash":"1"},
"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-1","uid":"uid-web-1","controller":true}]},
"spec":{"afterTomorrow":{"a":1},"containers":[{"name":"main","image":"web","resources":{"afterTomorrow":2}}]}}`

// call sends a request to a webhook.
func (w *webhookHarness) call(path string, r admissionv1.AdmissionRequest) (int, string, *admissionv1.AdmissionResponse) {
	w.t.Helper()
	w.mu.Lock()
	w.requests++
	if r.UID == "" {
		r.UID = types.UID(fmt.Sprint("request-", w.requests))
	}
	w.mu.Unlock()
	if r.Namespace == "" {
		r.Namespace = "shop"
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: &r,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	request := httptest.NewRequestWithContext(w.t.Context(), http.MethodPost, path+"?timeout=10s", bytes.NewReader(body))
	answer := httptest.NewRecorder()
	w.Handlers()[path].ServeHTTP(answer, request)
	if answer.Code != http.StatusOK {
		return answer.Code, answer.Body.String(), nil
	}
	review := admissionv1.AdmissionReview{}
	if err := json.Unmarshal(answer.Body.Bytes(), &review); err != nil || review.Response == nil || review.Response.UID != r.UID ||
		review.Kind != "AdmissionReview" {
		w.t.Fatalf("%s: %v", answer.Body, err)
	}
	text := ""
	if review.Response.Result != nil {
		text = review.Response.Result.Message
	}
	return answer.Code, text, review.Response
}

// create asks for a pod and returns it as it would be stored; nil if it is not created, with the text
// of the answer.
func (w *webhookHarness) create(raw string) (*v1.Pod, string) {
	w.t.Helper()
	_, text, response := w.call(PathMutatePods, admissionv1.AdmissionRequest{Operation: admissionv1.Create,
		Object: runtime.RawExtension{Raw: []byte(raw)}})
	if response == nil || !response.Allowed {
		return nil, text
	}
	pod := &v1.Pod{}
	if err := json.Unmarshal(patched(w.t, raw, response.Patch), pod); err != nil {
		w.t.Fatal(err)
	}
	return pod, text
}

func patched(t testing.TB, raw string, patch []byte) []byte {
	t.Helper()
	if len(patch) == 0 {
		return []byte(raw)
	}
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		t.Fatal(err)
	}
	out, err := operations.Apply([]byte(raw))
	if err != nil {
		t.Fatalf("%s: %v", patch, err)
	}
	return out
}

func (w *webhookHarness) spread(name string) *v1alpha1.WorkloadSpread {
	w.t.Helper()
	o := &v1alpha1.WorkloadSpread{}
	if err := w.Get(w.t.Context(), types.NamespacedName{Namespace: "shop", Name: name}, o); err != nil {
		w.t.Fatal(err)
	}
	return o
}

// used is how many pods are counted in each subset of a WorkloadSpread.
func (w *webhookHarness) used(name string) map[string]int {
	out := map[string]int{}
	for _, row := range w.spread(name).Status.VersionedSubsetStatuses {
		for _, c := range row {
			out[c.Name] += int(c.Replicas) + len(c.CreatingPods)
		}
	}
	return out
}

func subsetOf(pod *v1.Pod) string {
	if pod == nil {
		return "refused"
	}
	a, ok := workloadspread.AssignmentOf(pod)
	if !ok {
		return "not marked"
	}
	return a.Subset
}

// newServerOf is the Server of another process.
func newServerOf(c client.Client) *Server {
	return New(c, c, store.New(c, c, nil), Options{})
}

func createRequest(raw string) admissionv1.AdmissionRequest {
	return admissionv1.AdmissionRequest{Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(raw)}}
}
