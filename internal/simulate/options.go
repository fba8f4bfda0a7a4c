package simulate

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/internal/grouppolicy"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/scaledown"
	"github.com/evenkeel/evenkeel/scaleup"
)

const gib = 1 << 30

var policiesPath = specPath.Child("policies")

// scalerOptions converts the options of the document, already checked by Validate, and its quotas
// to those of the pipeline.
func scalerOptions(s *v1alpha1.ScenarioSpec) (scaleup.Options, field.ErrorList) {
	o, at := &s.Options, specPath.Child("options")
	var errs field.ErrorList
	cores, _ := parseTotal(o.CoresTotal) // checked by Validate
	memory, _ := parseTotal(o.MemoryTotal)
	out := scaleup.Options{
		SequentialResize:   true, // the same file gives the same bytes
		DisableBalancing:   o.BalanceSimilarNodeGroups != nil && !*o.BalanceSimilarNodeGroups,
		DisableSpreadSplit: o.SpreadAwareSplit != nil && !*o.SpreadAwareSplit,
		Limits: scaleup.Limits{
			MaxNodesPerScaleUp: int(o.MaxNodesPerScaleup),
			MaxNodesTotal:      int(o.MaxNodesTotal),
			MaxCoresTotal:      cores,
			MaxMemoryTotal:     min(memory, math.MaxInt64/gib) * gib,
		},
		StartupTaints: o.StartupTaints,
	}
	setDuration(&out.Backoff.Initial, o.InitialNodeGroupBackoffDuration)
	setDuration(&out.Backoff.Max, o.MaxNodeGroupBackoffDuration)
	setDuration(&out.Backoff.Reset, o.NodeGroupBackoffResetTimeout)
	setDuration(&out.MaxNodeProvisionTime, o.MaxNodeProvisionTime)
	for _, q := range s.Quotas {
		out.Limits.Quotas = append(out.Limits.Quotas, pipelineQuota(q))
	}
	out.Similarity, errs = similarity(o, at)
	out.Similarity = nodegroupset.ParseGroupLabel(s.GroupLabel).Ignoring(out.Similarity)
	shift, refused := zonalShiftOptions(&o.ZonalShiftOptions, at)
	if refused != nil {
		errs = append(errs, refused)
	}
	out.ZonalShift = shift
	policies, wrong := grouppolicy.Convert(s.Policies, policiesPath)
	out.Similarity.Policies, errs = policies, append(errs, wrong...)
	chain, err := expanderChain(o, at)
	if err != nil {
		errs = append(errs, err)
	}
	out.Expander = chain
	return out, errs
}

// scaleDownOptions converts the options of the document, already checked by Validate, to those of
// scale-down; nil if it is off.
func scaleDownOptions(o *v1alpha1.ScenarioOptions, up scaleup.Options) *scaledown.Options {
	if !o.ScaleDownEnabled {
		return nil
	}
	off := func(skip *bool) bool { return skip != nil && !*skip }
	out := &scaledown.Options{
		DisableBalancing:       up.DisableBalancing,
		Similarity:             up.Similarity,
		UnneededTime:           durationIfGiven(o.ScaleDownUnneededTime),
		UnreadyTime:            durationIfGiven(o.ScaleDownUnreadyTime),
		DelayAfterAdd:          durationIfGiven(o.ScaleDownDelayAfterAdd),
		MaxBalanceDeferral:     durationIfGiven(o.MaxBalanceDeferral),
		AllowSystemPods:        off(o.SkipNodesWithSystemPods),
		AllowLocalStorage:      off(o.SkipNodesWithLocalStorage),
		AllowCustomControllers: off(o.SkipNodesWithCustomControllerPods),
		Seed:                   o.RandomSeed,
	}
	if o.ScaleDownUtilizationThreshold != "" {
		threshold, _ := parseThreshold(o.ScaleDownUtilizationThreshold.String()) // checked by Validate
		out.UtilizationThreshold = &threshold
	}
	if o.MaxScaleDownParallelism != nil {
		out.MaxParallelism = int(*o.MaxScaleDownParallelism)
	}
	if o.MaxDrainParallelism != nil {
		out.MaxDrainParallelism = int(*o.MaxDrainParallelism)
	}
	return out
}

func leftAlone(o *v1alpha1.ScenarioOptions) scaleup.PodFilter {
	return scaleup.PodFilter{
		ExpendablePriorityCutoff: o.ExpendablePodsPriorityCutoff,
		BypassedSchedulers:       o.BypassedSchedulerNames,
		AllowedSchedulers:        o.AllowedSchedulerNames,
	}
}

// parseThreshold reads a decimal from 0 to 1 as millionths.
func parseThreshold(text string) (int64, error) {
	if _, err := nodegroupset.ParseRatio(text); err != nil {
		return 0, err
	}
	share, err := strconv.ParseFloat(text, 64)
	return int64(math.Round(share * scaledown.Whole)), err
}

func durationIfGiven(d *metav1.Duration) *time.Duration {
	if d == nil {
		return nil
	}
	return &d.Duration
}

func pipelineQuota(q v1alpha1.ScenarioQuota) scaleup.Quota {
	out := scaleup.Quota{Name: q.Name, Groups: q.Groups, Zones: q.Zones}
	if q.Nodes != nil {
		out.Nodes = *q.Nodes
	}
	if q.Cores != nil {
		out.MilliCPU = min(*q.Cores, math.MaxInt64/1000) * 1000
	}
	if q.Memory != nil {
		out.Memory = q.Memory.Value()
	}
	return out
}

// similarity converts the similarity options to those of package nodegroupset, which checks them.
func similarity(o *v1alpha1.ScenarioOptions, at *field.Path) (nodegroupset.Options, field.ErrorList) {
	out := nodegroupset.Options{IgnoreLabels: o.BalancingIgnoreLabels, Labels: o.BalancingLabels, DisabledPacks: o.DisabledLabelPacks}
	var errs field.ErrorList
	for _, err := range out.SetRatios(o.MemoryDifferenceRatio.String(), o.MaxAllocatableDifferenceRatio.String(), o.MaxFreeDifferenceRatio.String()) {
		errs = append(errs, field.Invalid(at.Child(err.Path), err.Value, err.Reason))
	}
	if _, err := nodegroupset.NewIndex(out); err != nil {
		errs = append(errs, refusedOption(at, err))
	}
	return out, errs
}

// refusedOption returns the option that package nodegroupset refuses.
func refusedOption(at *field.Path, err error) *field.Error {
	var wrong *apportion.InvalidError
	if !errors.As(err, &wrong) || wrong.Path == "" {
		return field.Invalid(at, field.OmitValueType{}, err.Error())
	}
	path := strings.Replace(wrong.Path, "disabledPacks", "disabledLabelPacks", 1)
	return field.Invalid(at.Child(path), wrong.Value, wrong.Reason)
}

// invalid extracts the reason from an error that repeats the value.
func invalid(at *field.Path, value string, err error) *field.Error {
	var wrong *apportion.InvalidError
	if errors.As(err, &wrong) {
		return field.Invalid(at, value, wrong.Reason)
	}
	return field.Invalid(at, value, err.Error())
}

// expanderChain makes the chain of strategies.
func expanderChain(o *v1alpha1.ScenarioOptions, at *field.Path) (expander.Chain, *field.Error) {
	config := expander.Config{Seed: o.RandomSeed}
	if len(o.Priorities) > 0 {
		text, err := json.Marshal(o.Priorities)
		if err == nil {
			config.Priorities, err = expander.ParsePriorities(text)
		}
		if err != nil {
			return expander.Chain{}, field.Invalid(at.Child("priorities"), field.OmitValueType{}, err.Error())
		}
	}
	var names []string
	if o.Expander != "" {
		var err error
		if names, err = expander.ParseNames(o.Expander); err != nil {
			return expander.Chain{}, field.Invalid(at.Child("expander"), o.Expander, err.Error())
		}
	}
	chain, err := expander.New(names, config)
	switch {
	case errors.Is(err, expander.ErrNoPriorities):
		return chain, field.Required(at.Child("priorities"), "the expander priority needs them")
	case err != nil:
		return chain, field.Invalid(at.Child("expander"), o.Expander, fmt.Sprint(err))
	}
	return chain, nil
}
