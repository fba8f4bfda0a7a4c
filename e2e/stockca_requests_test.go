package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/e2e/autoscaler"
)

// What the autoscaler needs to serve ProvisioningRequests, and one of nine pods that is all or nothing.
const (
	requestsInstalled = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition,
  metadata: {name: provisioningrequests.autoscaling.x-k8s.io, annotations: {api-approved.kubernetes.io: "unapproved, it stands in for the real one in a test"}},
  spec: {group: autoscaling.x-k8s.io, scope: Namespaced, names: {kind: ProvisioningRequest, plural: provisioningrequests}, versions: [{name: v1, served: true, storage: true,
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}, subresources: {status: {}}}]}}`
	requestedPods = `{apiVersion: v1, kind: PodTemplate, metadata: {name: batch, namespace: default}, template: {metadata: {labels: {app: batch}},
  spec: {nodeSelector: {node.kubernetes.io/instance-type: m}, containers: [{name: main, image: none, resources: {requests: {cpu: 1900m}}}]}}}`
	request = `{apiVersion: autoscaling.x-k8s.io/v1, kind: ProvisioningRequest, metadata: {name: batch, namespace: default}, spec: {
  provisioningClassName: best-effort-atomic-scale-up.autoscaling.x-k8s.io, podSets: [{count: 9, podTemplateRef: {name: batch}}]}}`
)

// A ProvisioningRequest that is all or nothing gets its nodes with the sidecar as without, level, also
// where no group of the set has room for all of them.
func TestStockAutoscalerProvisionsRequests(t *testing.T) {
	autoscaler.Binary(t)
	for _, maximum := range []int64{20, 5} {
		c := comparison{
			trial: trial{
				name: fmt.Sprintf("a ProvisioningRequest of 9 in groups of at most %d", maximum), boot: 20 * time.Second,
				groups: zones("m", maximum, 0, 0, 0), demands: []demand{{machine: "m", perNode: 1}}, flags: []string{"--enable-provisioning-requests"},
				prepare: func(ctx context.Context, t *testing.T, w *trialRun) {
					t.Helper()
					createAll(ctx, t, w.plane, requestsInstalled)
					createSoon(ctx, t, w, requestedPods)
				},
			},
			acts: func(ctx context.Context, t *testing.T, w *trialRun) []time.Duration {
				t.Helper()
				made := createSoon(ctx, t, w, request)
				return []time.Duration{w.within(ctx, t, w.began, func(ctx context.Context) error {
					return w.plane.Until(ctx, made, func() bool { return holds(made, "Provisioned") })
				})}
			},
			check: ends(3, 3, 3),
		}
		t.Run(c.name, c.neverLater)
	}
}

// createSoon creates an object whose kind may not be served yet.
func createSoon(ctx context.Context, t *testing.T, w *trialRun, text string) *unstructured.Unstructured {
	t.Helper()
	o := parse(t, text)
	var last error
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		last = client.IgnoreAlreadyExists(w.plane.Client.Create(ctx, o))
		return last == nil, nil
	}); err != nil {
		t.Fatalf("creating %s: %v", o.GetKind(), last)
	}
	return o
}

// holds reports whether a condition of an object is true.
func holds(o *unstructured.Unstructured, kind string) bool {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == kind {
			return c["status"] == "True"
		}
	}
	return false
}
