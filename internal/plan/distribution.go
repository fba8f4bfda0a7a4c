package plan

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/internal/admission"
)

func validateDistribution(s *v1alpha1.ReplicaDistributionSpec) field.ErrorList {
	var c checks
	c.required(spec.Child("replicas"), s.Replicas)
	admission.Option(&c.Checker, spec.Child("policy"), s.Policy, v1alpha1.DistributeProportional, v1alpha1.DistributePriority)
	admission.Option(&c.Checker, spec.Child("rounding"), s.Rounding, v1alpha1.RoundLargestRemainder, v1alpha1.RoundWebster,
		v1alpha1.RoundDHondt)
	admission.Option(&c.Checker, spec.Child("minMode"), s.MinMode, v1alpha1.MinFloor, v1alpha1.MinAdditive)
	admission.Option(&c.Checker, spec.Child("shortage"), s.Shortage, v1alpha1.ShortageGuaranteeMin, v1alpha1.ShortageTotalWins)
	admission.Option(&c.Checker, spec.Child("pending"), s.Pending, v1alpha1.PendingKeep, v1alpha1.PendingTrim)
	admission.Option(&c.Checker, spec.Child("relief"), s.Relief, v1alpha1.ReliefAny, v1alpha1.ReliefLaterOnly, v1alpha1.ReliefHealthyOnly)
	if s.Relief == v1alpha1.ReliefLaterOnly && (s.Policy == "" || s.Policy == v1alpha1.DistributeProportional) {
		c.Add(field.Invalid(spec.Child("relief"), string(s.Relief), "may be set only with policy Priority"))
	}
	admission.Option(&c.Checker, spec.Child("tieBreak"), s.TieBreak, v1alpha1.TieByName, v1alpha1.TieByHash)
	seen := names{}
	for i := range s.Targets {
		t, at := &s.Targets[i], spec.Child("targets").Index(i)
		seen.check(&c, at.Child("name"), t.Name)
		c.weight(at.Child("weight"), t.Weight)
		c.count(at.Child("min"), t.Min)
		c.count(at.Child("max"), t.Max)
		c.bounds(at.Child("min"), t.Min, t.Max)
		c.count(at.Child("capacity"), t.Capacity)
		c.count(at.Child("current"), t.Current)
	}
	return c.Errors
}

func distribution(s *v1alpha1.ReplicaDistributionSpec) (any, error) {
	request := apportion.Request{
		Replicas:  *s.Replicas,
		Policy:    apportion.Policy(s.Policy),
		Rounding:  apportion.Rounding(s.Rounding),
		MinMode:   apportion.MinMode(s.MinMode),
		Shortage:  apportion.Shortage(s.Shortage),
		Rebalance: s.Rebalance,
		Pending:   apportion.Pending(s.Pending),
		Relief:    apportion.Relief(s.Relief),
		Key:       s.Key,
		TieBreak:  apportion.TieBreak(s.TieBreak),
		Targets:   make([]apportion.Target, len(s.Targets)),
	}
	for i, t := range s.Targets {
		request.Targets[i] = apportion.Target{
			Name: t.Name, Weight: t.Weight, Min: ptr.Deref(t.Min, 0), Max: t.Max, Capacity: t.Capacity, Current: ptr.Deref(t.Current, 0),
		}
	}
	answer, err := apportion.Distribute(request)
	if err != nil {
		return nil, err
	}
	status := &v1alpha1.ReplicaDistributionStatus{
		Targets:  make([]v1alpha1.DistributionTargetStatus, len(answer.Targets)),
		Unplaced: answer.Unplaced,
		Excess:   answer.Excess,
	}
	for i, t := range answer.Targets {
		status.Targets[i] = v1alpha1.DistributionTargetStatus{
			Name: t.Name, Replicas: t.Replicas, Pending: t.Pending, Reason: v1alpha1.DistributionReason(t.Reason),
		}
	}
	return status, nil
}
