package fake

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

const gib = 1 << 30

// NodePrice implements cloudprovider.Pricing for the cloud's nodes and for nodes
// made from its templates, which carry GroupAnnotation.
func (c *Cloud) NodePrice(ctx context.Context, node *v1.Node, start, end time.Time) (cloudprovider.Price, error) {
	return ask(ctx, c, Call{Method: MethodNodePrice, Nodes: []string{node.Name}}, func(*group, time.Time) (cloudprovider.Price, error) {
		g := c.byID[node.Annotations[GroupAnnotation]]
		if in := c.find(node); in != nil {
			g = in.group
		}
		if g == nil || g.PricePerHour == 0 {
			return 0, cloudprovider.ErrNotImplemented
		}
		return g.PricePerHour.Over(end.Sub(start)), nil
	})
}

// PodPrice implements cloudprovider.Pricing.
func (c *Cloud) PodPrice(ctx context.Context, pod *v1.Pod, start, end time.Time) (cloudprovider.Price, error) {
	return ask(ctx, c, Call{Method: MethodPodPrice}, func(*group, time.Time) (cloudprovider.Price, error) {
		if c.prices == (PodPrices{}) {
			return 0, cloudprovider.ErrNotImplemented
		}
		requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
		perHour := c.prices.Core.Scale(requests.Cpu().MilliValue(), 1000) +
			c.prices.GiB.Scale(requests.Memory().Value(), gib)
		return perHour.Over(end.Sub(start)), nil
	})
}
