package provider

import (
	"time"

	"github.com/evenkeel/evenkeel/cloudprovider"

	v1 "k8s.io/api/core/v1"
	ca "sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider"
)

// pricing is the prices of a cloud in whole units of its currency.
type pricing struct {
	p      *Provider
	prices cloudprovider.Pricing
}

var _ ca.PricingModel = &pricing{}

func (m *pricing) NodePrice(node *v1.Node, start, end time.Time) (float64, error) {
	ctx, cancel := m.p.within()
	defer cancel()
	return units(m.prices.NodePrice(ctx, node, start, end))
}

func (m *pricing) PodPrice(pod *v1.Pod, start, end time.Time) (float64, error) {
	ctx, cancel := m.p.within()
	defer cancel()
	return units(m.prices.PodPrice(ctx, pod, start, end))
}

func units(price cloudprovider.Price, err error) (float64, error) {
	return float64(price) / float64(cloudprovider.PriceUnit), absent(err)
}
