package admission_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/evenkeel/evenkeel/workloadspread/admission"
	"github.com/evenkeel/evenkeel/workloadspread/store"
)

func ExampleServer_Handlers() {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		fmt.Println(err)
		return
	}
	api := fake.NewClientBuilder().WithScheme(scheme).Build()
	webhooks := admission.New(api, api, store.New(api, api, nil), admission.Options{}).Handlers()
	for _, path := range slices.Sorted(maps.Keys(webhooks)) {
		fmt.Println(path)
	}

	// A pod without a controller is left alone.
	request := strings.NewReader(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"CREATE","object":{"kind":"Pod"}}}`)
	answer := httptest.NewRecorder()
	webhooks[admission.PathMutatePods].ServeHTTP(answer, httptest.NewRequest(http.MethodPost, admission.PathMutatePods, request))
	fmt.Print(answer.Body)
	// Output:
	// /mutate-pods
	// /validate-workloadspreads
	// {"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"1","allowed":true}}
}
