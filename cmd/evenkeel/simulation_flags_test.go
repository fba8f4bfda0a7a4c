package main

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// A right to read volumes that is missing is found before the cache waits for it, which would keep all
// controllers from running.
func TestTheSimulationAsksForItsRights(t *testing.T) {
	for _, missing := range []string{"", "NodeList", "PersistentVolumeClaimList", "VolumeAttachmentList"} {
		asked := 0
		live := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
			List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
				asked++
				if kind := list.GetObjectKind().GroupVersionKind(); kind.Kind == missing {
					return apierrors.NewForbidden(schema.GroupResource{Group: kind.Group, Resource: missing}, "", nil)
				}
				return nil
			},
		}).Build()
		err := (&simulationFlags{}).lacks(t.Context(), live)
		if missing == "" && (err != nil || asked != 10) || missing != "" && (err == nil || !strings.Contains(err.Error(), missing)) {
			t.Errorf("without %q: asked %d times: %v", missing, asked, err)
		}
	}
}
