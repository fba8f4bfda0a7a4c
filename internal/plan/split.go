package plan

import (
	"errors"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/admission"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

func validateSplit(s *v1alpha1.NodeGroupSplitSpec) field.ErrorList {
	var c checks
	c.required(spec.Child("nodes"), s.Nodes)
	admission.Option(&c.Checker, spec.Child("policy"), s.Policy, v1alpha1.SplitEven, v1alpha1.SplitProportional, v1alpha1.SplitPriority)
	groups := spec.Child("groups")
	if len(s.Groups) == 0 {
		c.Add(field.Required(groups, "must have at least one group"))
	}
	seen := names{}
	for i := range s.Groups {
		g, at := &s.Groups[i], groups.Index(i)
		seen.check(&c, at.Child("name"), g.Name)
		c.required(at.Child("size"), g.Size)
		c.count(at.Child("min"), g.Min)
		c.required(at.Child("max"), g.Max)
		c.bounds(at.Child("min"), g.Min, g.Max)
		c.weight(at.Child("weight"), g.Weight)
		c.weight(at.Child("base"), g.Base)
		c.count(at.Child("capacity"), g.Capacity)
		if len(s.Portions) > 0 {
			c.absent(at.Child("weight"), g.Weight, "belongs to the portion of the group")
			c.absent(at.Child("base"), g.Base, "belongs to the portion of the group")
		}
	}
	portions := names{}
	for i := range s.Portions {
		p, at := &s.Portions[i], spec.Child("portions").Index(i)
		portions.check(&c, at.Child("name"), p.Name)
		c.weight(at.Child("weight"), p.Weight)
		c.weight(at.Child("base"), p.Base)
		if len(p.Groups) == 0 {
			c.Add(field.Required(at.Child("groups"), "must have at least one group"))
		}
	}
	c.count(spec.Child("nodeCapacity"), s.NodeCapacity)
	if s.Chosen != "" && !seen[s.Chosen] {
		c.Add(field.Invalid(spec.Child("chosen"), s.Chosen, "must be the name of a group"))
	}
	if len(c.Errors) == 0 && (len(s.Portions) > 0 || s.NodeCapacity != nil || s.Groups[0].Capacity != nil) {
		var wrong *field.Error
		if _, err := split(s); errors.As(err, &wrong) { // how portions and groups belong together
			c.Add(wrong)
		}
	}
	return c.Errors
}

func split(s *v1alpha1.NodeGroupSplitSpec) (any, error) {
	request := nodegroupset.SplitRequest{
		Nodes:  *s.Nodes,
		Policy: nodegroupset.Policy(s.Policy),
		Chosen: s.Chosen,
		Groups: make([]nodegroupset.Group, len(s.Groups)),
	}
	for i, g := range s.Groups {
		request.Groups[i] = nodegroupset.Group{
			Name: g.Name, Size: *g.Size, Min: ptr.Deref(g.Min, 0), Max: *g.Max, Weight: ptr.Deref(g.Weight, 1),
			Base: ptr.Deref(g.Base, 0), Capacity: ptr.Deref(g.Capacity, 0),
		}
	}
	request.NodeCapacity = ptr.Deref(s.NodeCapacity, 0)
	for _, p := range s.Portions {
		request.Portions = append(request.Portions, nodegroupset.Portion{
			Name: p.Name, Groups: p.Groups, Weight: ptr.Deref(p.Weight, 1), Base: ptr.Deref(p.Base, 0),
		})
	}
	answer, err := nodegroupset.Split(request)
	if err != nil {
		return nil, at(err, spec)
	}
	status := &v1alpha1.NodeGroupSplitStatus{
		Groups:   make([]v1alpha1.SplitGroupStatus, len(answer.Groups)),
		Unplaced: answer.Unplaced,
	}
	for i, g := range answer.Groups {
		status.Groups[i] = v1alpha1.SplitGroupStatus{
			Name: g.Name, Size: g.Size, NewSize: g.NewSize, Reason: v1alpha1.SplitReason(g.Reason),
		}
	}
	return status, nil
}
