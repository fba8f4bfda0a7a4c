package main

import (
	"cmp"

	"github.com/spf13/pflag"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/deferral"
	"github.com/evenkeel/evenkeel/sidecar"
	"github.com/evenkeel/evenkeel/sidecar/cluster"
)

func (o *sidecarOptions) addTo(f *pflag.FlagSet) {
	f.StringVar(&o.address, "address", "127.0.0.1:8086", "address of the cloud provider for Cluster Autoscaler")
	addCertificate(f, &o.files, "", "certificate of the provider listener; without it there is no TLS",
		"authority that must have signed the certificates of clients of the provider listener")
	f.StringVar(&o.expanderAddress, "expander-address", "127.0.0.1:8087", "address of the expander for Cluster Autoscaler")
	addCertificate(f, &o.expanderFiles, "expander-", "certificate of the expander listener, required by Cluster Autoscaler", "")
	f.StringVar(&o.backendAddress, "backend-address", "", "the real external cloud provider, host:port")
	addCertificate(f, &o.backendFiles, "backend-", "client certificate for the real provider",
		"authority that must have signed the real provider's certificate; enables TLS")
	o.autoscalerServer.addTo(f, providerListener, metricsListener)
	f.BoolVar(&o.balance, "balance-similar-node-groups", true, "split between similar node groups")
	f.DurationVar(&o.options.MaxNodeStartupTime, "max-node-startup-time", cloudprovider.DefaultMaxNodeStartupTime,
		"the value passed to Cluster Autoscaler")
	f.DurationVar(&o.options.Backoff.Initial, "initial-node-group-backoff-duration", 0, "backoff of a member after a refusal; 0 means 5m")
	f.DurationVar(&o.options.Backoff.Max, "max-node-group-backoff-duration", 0, "maximum backoff after repeated refusals; 0 means 30m")
	f.DurationVar(&o.options.Backoff.Reset, "node-group-backoff-reset-timeout", 0, "time after which a refusal is forgotten; 0 means 3h")
	f.DurationVar(&o.options.BackendTimeout, "backend-timeout", sidecar.DefaultBackendTimeout,
		"timeout of a call to the real provider; Cluster Autoscaler gets an answer long before")
	f.IntVar(&o.options.Parallel, "backend-parallelism", sidecar.DefaultParallel,
		"concurrent calls to the real provider while its state is read")
	f.BoolVar(&o.options.LevelScaleDown, "level-scale-down", false,
		"do not remove nodes from smaller members of a set while larger ones can shrink")
	o.options.MaxBalanceDeferral = f.Duration("max-balance-deferral", deferral.Default,
		"how long a set waits for its larger members to shrink before it may become unbalanced; 0 does not wait")
	f.BoolVar(&o.options.NoticePods, "pod-provisioning-conditions", false,
		"write the condition NodeProvisioningInProgress of pods, which says whether a node is on its way; needs to patch pods/status")
	f.BoolVar(&o.options.DryRun, "dry-run", false, "only report what would be done")
	f.BoolVar(&o.noCluster, "no-cluster", false, "do not use the API server")
	f.BoolVar(&o.inferReadiness, "infer-readiness", false,
		"infer which nodes are ready from Cluster Autoscaler's calls instead of watching them")
	f.StringVar(&o.journalFile, "journal-file", "", "keep the journal in this file instead of a ConfigMap")
	f.StringVar(&o.cluster.Namespace, "namespace", cluster.DefaultNamespace, "namespace of the journal and of Cluster Autoscaler's lease")
	f.StringVar(&o.cluster.ConfigMap, "journal-configmap", cluster.DefaultConfigMap, "ConfigMap of the journal")
	f.BoolVar(&o.leaderElect, "leader-elect", true,
		"whether Cluster Autoscaler elects a leader; only the sidecar of the leader writes the journal")
	f.StringVar(&o.cluster.Lease, "leader-elect-resource-name", cluster.DefaultLease, "name of Cluster Autoscaler's lease")
	f.StringVar(&o.cluster.Identity, "leader-identity", "",
		"identity in the lease of the Cluster Autoscaler of this sidecar; empty means the host name")
	f.StringArrayVar(&o.cluster.StartupTaints, "startup-taint", nil,
		"taint of nodes that are not ready yet, as passed to Cluster Autoscaler; may be repeated")
	f.StringArrayVar(&o.cluster.StartupTaintPrefixes, "startup-taint-prefix", nil,
		"prefix of such taints, as passed to Cluster Autoscaler; may be repeated")
	f.StringVar(&o.cluster.GPULabel, "gpu-label", "",
		"label of nodes that are not ready until they have GPUs; must be the GPU label of the real provider")
	f.StringVar(&o.record, "record", "", "append every call to this file, as JSON lines")
	f.StringVar(&o.recordEvents, "record-events", "", "append everything that is decided about to this file, as JSON lines for --replay")
	f.StringVar(&o.replay, "replay", "",
		"serve nothing, but decide again about the events in a `FILE` of --record-events, and print the decisions")
}

func (o *sidecarOptions) validate(f *pflag.FlagSet) error {
	o.shifts.namespace, o.options.NotBalanced = o.cluster.Namespace, !o.balance
	if o.replay != "" {
		return cmp.Or(
			refuse(o.backendAddress != "" || o.recordEvents != "" || o.record != "",
				"--replay cannot be combined with --backend-address, --record or --record-events: it serves nothing"),
			positive(f, "max-node-provision-time", "max-node-startup-time"), notNegative(f, "max-balance-deferral"),
		)
	}
	return cmp.Or(
		refuse(f.Changed("output"), "--output needs --replay: a server prints no result"),
		refuse(o.backendAddress == "", "no cloud provider given (name it with --backend-address)"),
		refuse(o.expanderAddress != "" && (o.expanderFiles.Cert == "" || o.expanderFiles.Key == ""),
			"the expander needs --expander-cert and --expander-key, because Cluster Autoscaler requires TLS (evenkeel certs makes a pair)"),
		checkPair("backend-", o.backendFiles),
		refuse(o.options.DryRun && o.options.NoticePods,
			"--pod-provisioning-conditions and --dry-run cannot be combined: what would be done is not done about any pod"),
		refuse(o.options.LevelScaleDown && !o.balance,
			"--level-scale-down needs --balance-similar-node-groups: without sets there is nothing to balance"),
		refuse(o.options.Parallel < 1, "invalid --backend-parallelism %d: must be 1 or more", o.options.Parallel),
		o.checkCluster(), o.shifts.validate(), o.checkAddresses(), checkFiles("", o.files),
		positive(f, "max-node-provision-time", "max-node-startup-time", "backend-timeout", "grace"),
		notNegative(f, "max-balance-deferral", "initial-node-group-backoff-duration", "max-node-group-backoff-duration",
			"node-group-backoff-reset-timeout"),
	)
}

// checkCluster checks what is needed instead of a cluster, and what needs one.
func (o *sidecarOptions) checkCluster() error {
	if !o.noCluster {
		return nil
	}
	return cmp.Or(
		refuse(o.kubeconfig != "", "--no-cluster and --kubeconfig cannot be combined"),
		refuse(!o.inferReadiness, "--no-cluster needs --infer-readiness: without a cluster the readiness of nodes is unknown"),
		refuse(o.journalFile == "", "--no-cluster needs --journal-file: without a journal nothing is granted in part"),
		refuse(o.options.NoticePods, "--pod-provisioning-conditions needs a cluster: without one there is no pod to write to"),
		refuse(o.shifts.configMap != "", "--zonal-shift-configmap needs a cluster: give --zonal-shift-file with --no-cluster"),
	)
}

func (o *sidecarOptions) checkAddresses() error {
	return cmp.Or(
		checkAddress("address", o.address), checkAddress("backend-address", o.backendAddress),
		checkOptional("expander-address", o.expanderAddress),
		o.pages.validate(),
		refuse(o.backendAddress == o.address, "--backend-address and --address are both %s: the sidecar would call itself", o.address),
	)
}
