package linked

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/deferral"
	"github.com/evenkeel/evenkeel/internal/grouppolicy"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

const (
	flagMaxBalanceDeferral = "max-balance-deferral"
	flagDisableLabelPack   = "disable-label-pack"
	flagIgnoreLabel        = "balancing-ignore-label"
	flagLabel              = "balancing-label"
	flagMemoryRatio        = "memory-difference-ratio"
	flagAllocatableRatio   = "max-allocatable-difference-ratio"
	flagNodeGroupPolicies  = "node-group-policies"
	flagSpreadAwareSplit   = "spread-aware-split"
	flagFreeRatio          = "max-free-difference-ratio"
	flagPodConditions      = "pod-provisioning-conditions"
)

// Flags are the values of the flags that say how evenkeel balances: the autoscaler's own, and those
// of OwnFlags.
type Flags struct {
	IgnoreLabels, Labels                     []string
	MemoryRatio, AllocatableRatio, FreeRatio float64
	OwnFlags
}

// OwnFlags are the flags the autoscaler does not have.
type OwnFlags struct {
	// MaxBalanceDeferral is how long a node that may be removed is kept at most because removing it
	// would make its set uneven. Nil is deferral.Default; 0 keeps no node.
	MaxBalanceDeferral *time.Duration
	// DisabledLabelPacks are the names of label packs that do not apply.
	DisabledLabelPacks []string
	// NodeGroupPolicies is a file of NodeGroupPolicies; empty for none.
	NodeGroupPolicies string
	// SpreadAwareSplit plans the nodes of all pending pods that have a topology spread at once.
	SpreadAwareSplit bool
	// PodConditions has the condition of pods written that says what is done about them.
	PodConditions bool
}

// Add adds the flags.
func (o *OwnFlags) Add(flags *pflag.FlagSet) {
	o.MaxBalanceDeferral = flags.Duration(flagMaxBalanceDeferral, deferral.Default,
		"How long a node that may be removed is kept at most because removing it would make similar node groups uneven. 0 keeps none.")
	flags.StringArrayVar(&o.DisabledLabelPacks, flagDisableLabelPack, nil,
		"A label pack that does not apply when node groups are compared. Can be used multiple times.")
	flags.StringVar(&o.NodeGroupPolicies, flagNodeGroupPolicies, "",
		"File of NodeGroupPolicies, which declare sets of node groups and how they share nodes. It is read again when it changes.")
	flags.BoolVar(&o.SpreadAwareSplit, flagSpreadAwareSplit, true,
		"Plan the nodes of all pending pods that have a topology spread over zones at once.")
	flags.BoolVar(&o.PodConditions, flagPodConditions, false,
		"Write the condition NodeProvisioningInProgress of pods, which says whether a node is on its way for a pod. "+
			"Needs the right to patch pods/status.")
}

// Policies are the declared sets, and the file to look for changes; nil without one. A file that
// cannot be used is refused with an error that names the flag.
func (o OwnFlags) Policies() ([]nodegroupset.SetPolicy, Policies, error) {
	if o.NodeGroupPolicies == "" {
		return nil, nil, nil
	}
	file, policies, err := grouppolicy.Open(o.NodeGroupPolicies)
	if err != nil {
		return nil, nil, fmt.Errorf("invalid argument %q for --%s: %w", o.NodeGroupPolicies, flagNodeGroupPolicies, err)
	}
	return policies, file, nil
}

// Deferral is how long a node is kept at most. A flag that cannot be used is refused with an error
// that names it.
func (o OwnFlags) Deferral() (time.Duration, error) {
	limit, err := deferral.Limit(o.MaxBalanceDeferral)
	if err != nil {
		return 0, fmt.Errorf("invalid argument %q for --%s: %w", *o.MaxBalanceDeferral, flagMaxBalanceDeferral, err)
	}
	return limit, nil
}

// Similarity is what says which node groups are similar, as the index takes it. A flag that cannot
// be used is refused with an error that names it.
func (f Flags) Similarity() (nodegroupset.Options, error) {
	if len(f.Labels) > 0 && len(f.IgnoreLabels) > 0 {
		klog.Warning("--balancing-ignore-label has no effect beside --balancing-label, which decides alone")
	}
	out := nodegroupset.Options{
		IgnoreLabels: named(flagIgnoreLabel, f.IgnoreLabels), Labels: named(flagLabel, f.Labels),
		DisabledPacks: f.DisabledLabelPacks,
	}
	refused := out.SetRatios(decimal(flagMemoryRatio, f.MemoryRatio), decimal(flagAllocatableRatio, f.AllocatableRatio),
		decimal(flagFreeRatio, f.FreeRatio))
	if len(refused) > 0 {
		return nodegroupset.Options{}, namingTheFlag(refused[0])
	}
	return out, nil
}

// decimal is the ratio as it was typed: the shortest decimal that reads as the same number.
func decimal(flag string, ratio float64) string {
	typed := strconv.FormatFloat(ratio, 'g', -1, 64)
	if ratio <= 1 || math.IsInf(ratio, 0) || math.IsNaN(ratio) {
		return typed
	}
	klog.InfoS("A ratio above 1 counts as 1: no amount differs from a larger one by more than all of it", "flag", flag, "value", typed)
	return "1"
}

// named leaves out labels without a name, which the autoscaler accepts and no node has.
func named(flag string, labels []string) []string {
	out := slices.DeleteFunc(slices.Clone(labels), func(label string) bool { return strings.TrimSpace(label) == "" })
	if len(out) < len(labels) {
		klog.InfoS("A label without a name is left out", "flag", flag)
	}
	return out
}

// namingTheFlag turns the index's refusal of an option into one of the flag.
func namingTheFlag(err error) error {
	var invalid *apportion.InvalidError
	if !errors.As(err, &invalid) {
		return err
	}
	option, _, _ := strings.Cut(invalid.Path, "[")
	flag := map[string]string{
		"balancingIgnoreLabels": flagIgnoreLabel, "balancingLabels": flagLabel, "disabledPacks": flagDisableLabelPack,
		"memoryDifferenceRatio": flagMemoryRatio, "maxAllocatableDifferenceRatio": flagAllocatableRatio, "maxFreeDifferenceRatio": flagFreeRatio,
	}[option]
	return fmt.Errorf("invalid argument %q for --%s: %s", fmt.Sprint(invalid.Value), flag, invalid.Reason)
}
