package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/evenkeel/evenkeel/internal/serving"
)

// maxProviderRequest bounds the requests of Cluster Autoscaler to its cloud provider, in bytes. The
// largest ones name some hundred nodes to delete.
const maxProviderRequest = 8 << 20

// runner is a server.
type runner interface{ Run(context.Context) error }

// runnerFunc is a server that is a function.
type runnerFunc func(context.Context) error

// Run implements runner.
func (f runnerFunc) Run(ctx context.Context) error { return f(ctx) }

// listeners are the servers of a command. All of them listen before the first serves.
type listeners struct {
	servers   []runner
	addresses []any // by name, for a log
	stops     []func()
}

// grpc opens a listener for calls; the flag has its address.
func (l *listeners) grpc(ctx context.Context, flag, address string, options serving.Options) (*serving.Server, error) {
	server, err := serving.Listen(ctx, address, options)
	if err != nil {
		return nil, listenError(flag, address, err)
	}
	l.add(options.Name, server.Address(), server, server.Stop)
	return server, nil
}

// http opens a listener for pages.
func (l *listeners) http(ctx context.Context, flag, address string, options serving.HTTPOptions) (*serving.HTTPServer, error) {
	server, err := serving.ListenHTTP(ctx, address, options)
	if err != nil {
		return nil, listenError(flag, address, err)
	}
	l.add(options.Name, server.Address(), server, server.Stop)
	return server, nil
}

func (l *listeners) add(name, address string, server runner, stop func()) {
	l.servers, l.addresses, l.stops = append(l.servers, server), append(l.addresses, name, address), append(l.stops, stop)
}

func listenError(flag, address string, err error) error {
	return &usageError{fmt.Errorf("--%s=%s: %w", flag, address, err), "see the flags for addresses and certificates, and --allow-plaintext"}
}

// stop ends all servers at once.
func (l *listeners) stop() {
	for _, stop := range l.stops {
		stop()
	}
}

// run serves until ctx is done or a server fails, which also ends the others.
func (l *listeners) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, server := range l.servers {
		group.Go(func() error { return server.Run(ctx) })
	}
	return group.Wait()
}

// newRegistry returns a registry with the metrics that every server has.
func newRegistry() (*prometheus.Registry, *serving.Metrics) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	metrics, _ := serving.NewMetrics(registry) // nothing of that name is registered yet
	metrics.Build(thisBuild().Version, thisBuild().Commit)
	return registry, metrics
}

// checkAddress checks the flag of an address.
func checkAddress(flag, address string) error {
	_, _, err := net.SplitHostPort(address)
	return refuse(err != nil, "invalid --%s %q: must be host:port", flag, address)
}

// checkOptional does so for an address that may be empty.
func checkOptional(flag, address string) error {
	if address == "" {
		return nil
	}
	return checkAddress(flag, address)
}

// checkFiles checks the flags of a server's certificate, which begin with prefix.
func checkFiles(prefix string, files serving.Files) error {
	return cmp.Or(checkPair(prefix, files), refuse(files.CACert != "" && files.Cert == "", "--%[1]scacert needs --%[1]scert and --%[1]skey",
		prefix))
}

// checkPair checks the flags of a certificate and its key.
func checkPair(prefix string, files serving.Files) error {
	return refuse((files.Cert == "") != (files.Key == ""), "--%[1]scert and --%[1]skey must be given together", prefix)
}

// restConfig returns the configuration for the API server: from the file or, without one, from the
// pod. remedy is added to the error outside of a pod.
func restConfig(kubeconfig, remedy string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, &usageError{errors.New("no API server: the program does not run in a pod of a cluster"), remedy}
		}
		return config, err
	}
	return kubectlConfig("", kubeconfig, "", noCluster(remedy))
}

func noCluster(hint string) error { return &usageError{errors.New("no cluster found"), hint} }

// kubectlConfig returns the configuration for the API server as kubectl does: from the file, else
// from $KUBECONFIG, ~/.kube/config or, in a pod, its service account, with the context if one is
// named; none is the error if nothing names a server. The flags that name file and context begin with prefix.
func kubectlConfig(prefix, kubeconfig, kubecontext string, none error) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath, rules.WarnIfAllMissing = kubeconfig, false
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: kubecontext}).ClientConfig()
	switch {
	case err == nil:
		return config, nil
	case kubeconfig != "" && (kubecontext == "" || errors.Is(err, fs.ErrNotExist)):
		return nil, &usageError{fmt.Errorf("--%skubeconfig=%s: %w", prefix, kubeconfig, err), "must be a kubeconfig file"}
	case kubecontext != "":
		return nil, &usageError{fmt.Errorf("--%scontext=%s: %w", prefix, kubecontext, err),
			"kubectl config get-contexts names those of a kubeconfig"}
	case clientcmd.IsEmptyConfig(err):
		return nil, none
	}
	return nil, &usageError{err, "$KUBECONFIG or ~/.kube/config must be a kubeconfig file"}
}
