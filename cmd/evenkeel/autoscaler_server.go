package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/expander/grpcexpander"
	"github.com/evenkeel/evenkeel/internal/serving"
	"github.com/evenkeel/evenkeel/sidecar"
	"github.com/evenkeel/evenkeel/sidecar/cluster"
	"github.com/evenkeel/evenkeel/steering"
	"github.com/evenkeel/evenkeel/zonalshift"
)

// maxExpanderCalls bounds the concurrent calls of a connection to the expander: each may hold a
// message of maximum size. Cluster Autoscaler makes one at a time.
const maxExpanderCalls = 4

// autoscalerServer has the flags that the expander and the sidecar share.
type autoscalerServer struct {
	address      string
	files        serving.Files
	pages        pageFlags
	plaintext    plaintextFlag
	grace        time.Duration
	choice       choiceFlags
	options      sidecar.Options
	kubeconfig   string
	noCluster    bool
	cluster      cluster.Options
	recordEvents string // file
	shifts       shiftFlags
	log          logFlags
}

// addTo adds the flags. The listeners are those that may be without TLS.
func (o *autoscalerServer) addTo(f *pflag.FlagSet, listeners ...string) {
	o.pages.addTo(f, "127.0.0.1:8088", "/healthz, /readyz, /metrics and /status")
	o.plaintext.addTo(f, listeners...)
	f.DurationVar(&o.grace, "grace", serving.DefaultGrace, "how long calls in progress may take to finish at shutdown")
	o.choice.addTo(f)
	addSimilarityFlags(f, &o.options.Similarity)
	f.DurationVar(&o.options.MaxNodeProvisionTime, "max-node-provision-time", cloudprovider.DefaultMaxNodeProvisionTime,
		"the value passed to Cluster Autoscaler")
	o.shifts.addTo(f)
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file for the API server; empty means in-cluster configuration")
	o.log.addTo(f)
}

// decisions are the options that decide.
func (o *autoscalerServer) decisions() (options sidecar.Options, err error) {
	options = o.options
	options.ZonalShift = o.shifts.options()
	err = o.choice.decide(&options)
	return options, err
}

// A session is one run of such a server, with what it has opened.
type session struct {
	*autoscalerServer
	log      logr.Logger
	registry *prometheus.Registry
	metrics  *serving.Metrics
	config   *rest.Config // for the API server; nil without a cluster
	options  sidecar.Options
	ready    map[string]func() error
	listeners
	closers []func() error
}

// session runs work with what every such server needs, and closes all that it has opened, the last first.
func (o *autoscalerServer) session(log logr.Logger, collected int, work func(*session) error) (err error) {
	defer collect(collected)()
	s := &session{autoscalerServer: o, log: log, ready: map[string]func() error{}}
	defer func() {
		s.stop()
		for _, done := range slices.Backward(s.closers) {
			err = errors.Join(err, done())
		}
	}()
	s.registry, s.metrics = newRegistry()
	if s.options, err = o.decisions(); err != nil {
		return err
	}
	s.options.Log = log
	if o.recordEvents != "" {
		events, err := openEvents(o.recordEvents, log)
		if err != nil {
			return err
		}
		s.closeLater(events.Close)
		s.options.Record = events.add
	}
	return work(s)
}

func (s *session) closeLater(done func() error) { s.closers = append(s.closers, done) }

// join connects to the cluster, if there is one. What connect starts ends with its context, which is done when all calls have
// ended; wait returns after that.
func (s *session) join(ctx context.Context, connect func(context.Context, *rest.Config, cluster.Options) (wait func(), err error)) error {
	if s.noCluster {
		return nil
	}
	config, err := restConfig(s.kubeconfig, "give --kubeconfig, or --no-cluster")
	if err != nil {
		return err
	}
	options := s.cluster
	options.Log = s.log
	options.PodName, options.PodUID, options.PodNamespace = os.Getenv("POD_NAME"), os.Getenv("POD_UID"), os.Getenv("POD_NAMESPACE")
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	wait, err := connect(ctx, config, options)
	if err != nil {
		cancel()
		return &usageError{err, "see --kubeconfig"}
	}
	s.closeLater(func() error { cancel(); wait(); return nil })
	s.config = config
	return nil
}

// follow reports the marks of zones to what decides.
func (s *session) follow(ctx context.Context, report func(source string, marks []zonalshift.Mark, err error)) error {
	stop, err := s.shifts.watch(ctx, s.config, report)
	if err == nil {
		s.closeLater(func() error { stop(); return nil })
	}
	return err
}

// web has the options of the pages of a server of that name.
func (s *session) web(name string, status func() steering.Status) (serving.HTTPOptions, error) {
	web := serving.HTTPOptions{
		Plaintext: s.plaintext.allows(metricsListener), Ready: s.ready, Gatherer: s.registry, Metrics: s.metrics, Grace: s.grace,
	}
	serveStatus(&web, func() any { return autoscalerStatusOf(name, !s.noCluster, checksOf(s.ready), status()) })
	return web, s.pages.guard(&web, s.config, s.log)
}

// listen opens a listener for calls of Cluster Autoscaler.
func (s *session) listen(ctx context.Context, flag, address string, options serving.Options) (*serving.Server, error) {
	options.Grace, options.Metrics = s.grace, s.metrics
	server, err := s.listeners.grpc(ctx, flag, address, options)
	if err == nil {
		s.ready[options.Name+"-certificate"] = server.Problem
	}
	return server, err
}

// expand serves the expander. The options have its files and further ones of gRPC.
func (s *session) expand(ctx context.Context, flag, address string, options serving.Options, chooser expander.Chooser) error {
	options.Name, options.MaxRequest = "expander", grpcexpander.MaxMessage
	options.GRPC = append(options.GRPC, grpc.MaxConcurrentStreams(maxExpanderCalls))
	server, err := s.listen(ctx, flag, address, options)
	if err == nil {
		grpcexpander.NewServer(chooser).Register(server)
	}
	return err
}

// serve serves with the pages until ctx is done.
func (s *session) serve(ctx context.Context, web serving.HTTPOptions) error {
	if err := s.pages.listen(ctx, web, &s.listeners); err != nil {
		return err
	}
	s.log.Info("Serving Cluster Autoscaler", s.addresses...)
	return s.run(ctx)
}
