package controller

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// UnfencedClient returns a client for what every process does whether it leads or not, such as
// answering webhooks. Unlike with the client of a Manager, a process that has lost the leadership can
// write with it: each write must say which version of the object it replaces. It reads from the API
// server and has no rate limit.
func UnfencedClient(config *rest.Config, scheme *runtime.Scheme) (client.WithWatch, error) {
	unfenced, err := client.NewWithWatch(unlimited(config), client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("building a client for what needs no leader: %w", err)
	}
	return unfenced, nil
}

// unlimited is a configuration without a rate limit: the API server has its own.
func unlimited(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1
	if config.UserAgent == "" {
		config.UserAgent = userAgent
	}
	return config
}

// Cache holds what the controllers watch, also while this Manager stands by. It is filled while the
// Manager runs; Ready says when.
func (m *Manager) Cache() cache.Cache { return m.manager.GetCache() }
