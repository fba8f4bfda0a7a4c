package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/e2e/controlplane"
)

// What the API server makes of the stored kinds when it has nothing but their definitions. Nobody else acts on
// what is created.
func TestAPI(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	plane := controlplane.Start(t, controlplane.Options{Bare: true})
	c := balancerClient(ctx, t, plane)
	t.Run("Balancer", func(t *testing.T) {
		t.Run("samples", func(t *testing.T) { acceptedSamples(ctx, t, c) })
		t.Run("accepted", func(t *testing.T) { acceptedBalancers(ctx, t, c) })
		t.Run("refused", func(t *testing.T) { refusedBalancers(ctx, t, c) })
		t.Run("largest", func(t *testing.T) { largestBalancer(ctx, t, c) })
		t.Run("defaults", func(t *testing.T) { balancerDefaults(ctx, t, c) })
		t.Run("status", func(t *testing.T) { balancerStatus(ctx, t, c) })
		t.Run("scale", func(t *testing.T) { balancerScale(ctx, t, c, plane.Config) })
		t.Run("columns", func(t *testing.T) { balancerColumns(ctx, t, c, plane.Config) })
	})
	t.Run("FederatedReplicaSet", func(t *testing.T) {
		t.Run("accepted", func(t *testing.T) { acceptedFederated(ctx, t, c) })
		t.Run("refused", func(t *testing.T) { refusedFederated(ctx, t, c) })
		t.Run("largest", func(t *testing.T) { largestFederated(ctx, t, c) })
		t.Run("samples", func(t *testing.T) { federatedSamples(ctx, t, plane, c) })
		t.Run("life", func(t *testing.T) { federatedLife(ctx, t, c) })
	})
	t.Run("WorkloadSpread", func(t *testing.T) {
		t.Run("accepted", func(t *testing.T) { acceptedSpreads(ctx, t, c) })
		t.Run("refused", func(t *testing.T) { refusedSpreads(ctx, t, c) })
		t.Run("life", func(t *testing.T) { spreadLife(ctx, t, c) })
	})
}
