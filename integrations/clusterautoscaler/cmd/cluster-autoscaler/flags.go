package main

import (
	"flag"
	"fmt"

	"github.com/spf13/pflag"

	"k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	componentconfig "k8s.io/component-base/config"
	electionoptions "k8s.io/component-base/config/options"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	"sigs.k8s.io/cluster-autoscaler/pkg/config"
	"sigs.k8s.io/cluster-autoscaler/pkg/config/flags"
	ctrl "sigs.k8s.io/controller-runtime"
)

// parseFlags declares the flags that are not declared by importing packages, parses all of them,
// and sets up logging and feature gates as they say. A flag that is not known ends the process with
// exit code 2.
func parseFlags(election *componentconfig.LeaderElectionConfiguration) (config.AutoscalingOptions, error) {
	var none config.AutoscalingOptions
	if err := declareLogging(); err != nil {
		return none, err
	}
	logging, gates := logsapi.NewLoggingConfiguration(), feature.DefaultMutableFeatureGate
	if err := logsapi.AddFeatureGates(gates); err != nil {
		return none, fmt.Errorf("declare feature gates of logging: %w", err)
	}
	logsapi.AddFlags(logging, pflag.CommandLine)
	gates.AddFlag(pflag.CommandLine)
	electionoptions.BindLeaderElectionFlags(election, pflag.CommandLine)
	cliflag.InitFlags()

	options := flags.AutoscalingOptions()
	if err := alignResourceAllocation(gates, options.DynamicResourceAllocationEnabled); err != nil {
		return none, err
	}
	logs.InitLogs()
	output, err := flags.ComputeLoggingOptions(pflag.CommandLine)
	if err != nil {
		return none, fmt.Errorf("choose where to log: %w", err)
	}
	if err := logsapi.ValidateAndApplyWithOptions(logging, output, gates); err != nil {
		return none, fmt.Errorf("set up logging: %w", err)
	}
	ctrl.SetLogger(klog.NewKlogr())
	return options, nil
}

// declareLogging declares klog's own flags. They are set so that --stderrthreshold is honoured, and
// by default lets through what Cluster Autoscaler always logged.
func declareLogging() error {
	klog.InitFlags(nil)
	for name, value := range map[string]string{"legacy_stderr_threshold_behavior": "false", "stderrthreshold": "INFO"} {
		if err := flag.Set(name, value); err != nil {
			return fmt.Errorf("set --%s: %w", name, err)
		}
	}
	return nil
}

// alignResourceAllocation makes the feature gate, by which the scheduler's plugin for dynamic
// resource allocation is chosen, follow the autoscaler's flag: the plugin without the autoscaler's
// side of it crashes, and the other way round nothing would happen.
func alignResourceAllocation(gates featuregate.MutableFeatureGate, enabled bool) error {
	if gates.Enabled(features.DynamicResourceAllocation) == enabled {
		return nil
	}
	if err := gates.SetFromMap(map[string]bool{string(features.DynamicResourceAllocation): enabled}); err != nil {
		return fmt.Errorf("set the feature gate %s: %w", features.DynamicResourceAllocation, err)
	}
	return nil
}
