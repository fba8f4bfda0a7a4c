package clusterautoscaler

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/evenkeel/evenkeel/nodegroupset"

	"k8s.io/klog/v2"
	"sigs.k8s.io/cluster-autoscaler/pkg/config"
)

const (
	flagMaxBalanceDeferral = "max-balance-deferral"
	flagDisableLabelPack   = "disable-label-pack"
	flagIgnoreLabel        = "balancing-ignore-label"
	flagLabel              = "balancing-label"
)

// As with the autoscaler's own flags, to import the package is to have them.
var (
	maxBalanceDeferral = pflag.Duration(flagMaxBalanceDeferral, DefaultMaxBalanceDeferral,
		"How long a node that may be removed is kept at most because removing it would make similar node groups uneven. 0 keeps none.")
	disabledLabelPacks = pflag.StringArray(flagDisableLabelPack, nil,
		"A label pack that does not apply when node groups are compared. Can be used multiple times.")
)

// flagOptions are the options the flags were set to.
func flagOptions() Options {
	return Options{MaxBalanceDeferral: maxBalanceDeferral, DisabledLabelPacks: *disabledLabelPacks}
}

// comparisonOptions are the flags that say which node groups are similar, as the engine takes them.
func comparisonOptions(options config.AutoscalingOptions, disabledPacks []string) (nodegroupset.Options, error) {
	if len(options.BalancingLabels) > 0 && len(options.BalancingExtraIgnoredLabels) > 0 {
		klog.Warning("--balancing-ignore-label has no effect beside --balancing-label, which decides alone")
	}
	out := nodegroupset.Options{
		IgnoreLabels: named(flagIgnoreLabel, options.BalancingExtraIgnoredLabels), Labels: named(flagLabel, options.BalancingLabels),
		DisabledPacks: disabledPacks,
	}
	given := options.NodeGroupSetRatios
	for _, ratio := range []struct {
		flag  string
		value float64
		into  **nodegroupset.Ratio
	}{
		{"memory-difference-ratio", given.MaxCapacityMemoryDifferenceRatio, &out.MemoryDifferenceRatio},
		{"max-allocatable-difference-ratio", given.MaxAllocatableDifferenceRatio, &out.MaxAllocatableDifferenceRatio},
		{"max-free-difference-ratio", given.MaxFreeDifferenceRatio, &out.MaxFreeDifferenceRatio},
	} {
		// The shortest decimal that reads as the same number is what was typed.
		typed := strconv.FormatFloat(ratio.value, 'g', -1, 64)
		if ratio.value > 1 && !math.IsInf(ratio.value, 0) {
			klog.InfoS("A ratio above 1 counts as 1: no amount differs from a larger one by more than all of it", "flag", ratio.flag, "value", typed)
			typed = "1"
		}
		parsed, err := nodegroupset.ParseRatio(typed)
		if err != nil {
			var invalid *nodegroupset.InvalidError
			if errors.As(err, &invalid) {
				err = errors.New(invalid.Reason)
			}
			return nodegroupset.Options{}, fmt.Errorf("invalid argument %q for --%s: %w", typed, ratio.flag, err)
		}
		*ratio.into = &parsed
	}
	return out, nil
}

// named leaves out labels without a name, which the autoscaler accepts and no node has.
func named(flag string, labels []string) []string {
	out := slices.DeleteFunc(slices.Clone(labels), func(label string) bool { return strings.TrimSpace(label) == "" })
	if len(out) < len(labels) {
		klog.InfoS("A label without a name is left out", "flag", flag)
	}
	return out
}

// namingTheFlag turns the engine's refusal of an option into one of the flag.
func namingTheFlag(err error) error {
	var invalid *nodegroupset.InvalidError
	if !errors.As(err, &invalid) {
		return err
	}
	option, _, _ := strings.Cut(invalid.Path, "[")
	flag := map[string]string{"balancingIgnoreLabels": flagIgnoreLabel, "balancingLabels": flagLabel, "disabledPacks": flagDisableLabelPack}[option]
	return fmt.Errorf("invalid argument %q for --%s: %s", fmt.Sprint(invalid.Value), flag, invalid.Reason)
}
