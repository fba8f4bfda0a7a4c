package admission

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// Before a WorkloadSpread is created, the API server must send the pods of its namespace. A dry run and
// an update change nothing, and what is refused needs nothing.
func TestANewWorkloadSpreadHasItsNamespaceCovered(t *testing.T) {
	const valid = `{"metadata":{"name":"web"},"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"subsets":[{"name":"a"}]}}`
	for name, c := range map[string]struct {
		request admissionv1.AdmissionRequest
		fails   error
		covered int
		code    int
		allowed bool
	}{
		"created": {createRequest(valid), nil, 1, http.StatusOK, true},
		"dry run": {admissionv1.AdmissionRequest{Operation: admissionv1.Create, DryRun: ptr.To(true),
			Object: runtime.RawExtension{Raw: []byte(valid)}}, nil, 0, http.StatusOK, true},
		"updated": {admissionv1.AdmissionRequest{Operation: admissionv1.Update, Object: runtime.RawExtension{Raw: []byte(valid)},
			OldObject: runtime.RawExtension{Raw: []byte(valid)}}, nil, 0, http.StatusOK, true},
		"invalid": {createRequest(strings.Replace(valid, `{"name":"a"}`, "", 1)), nil, 0, http.StatusOK, false},
		"not sent": {createRequest(valid), errors.New("the API server does not send the pods of namespace shop yet"), 1,
			http.StatusInternalServerError, false},
	} {
		t.Run(name, func(t *testing.T) {
			covered := 0
			w := newWebhookHarness(t, Options{Cover: func(_ context.Context, namespace string) error {
				if covered++; namespace != "shop" {
					t.Errorf("namespace %s", namespace)
				}
				return c.fails
			}})
			code, text, answer := w.call(PathValidateSpreads, c.request)
			if code != c.code || covered != c.covered || (answer != nil && answer.Allowed) != c.allowed || c.fails != nil &&
				!strings.Contains(text, c.fails.Error()) {
				t.Errorf("%d %s, covered %d times", code, text, covered)
			}
		})
	}
}
