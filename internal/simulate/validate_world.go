package simulate

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/admission"
)

// stockOutModes are the modes that a stock-out of a scenario can have, and callMethods the calls that
// a fault can affect: those that the pipeline makes.
var (
	stockOutModes = []string{v1alpha1.StockOutRefuse, v1alpha1.StockOutFail, v1alpha1.StockOutSilent}
	callMethods   = []string{
		fake.MethodRefresh, fake.MethodNodeGroups, fake.MethodNodeGroupForNode, fake.MethodTargetSize, fake.MethodTemplate, fake.MethodOptions,
		fake.MethodNodes, fake.MethodIncreaseSize, fake.MethodDecreaseTargetSize, fake.MethodDeleteNodes, fake.MethodNodePrice,
	}
)

// known are the names that a scenario may refer to once its files are read.
type known struct {
	groups, zones, workloads sets.Set[string]

	subsets map[string]sets.Set[string] // of WorkloadSpreads
	values  map[string]sets.Set[string] // of the labels of groups, by key
}

// validateReferences checks references to groups, zones or workloads, which may come from files.
func validateReferences(s *v1alpha1.ScenarioSpec, names known) field.ErrorList {
	c := &references{known: names}
	admission.Each(specPath.Child("faults", "calls"), s.Faults.Calls, c.call)
	admission.Each(specPath.Child("faults", "zonalShifts"), s.Faults.ZonalShifts, c.zonalShift)
	if s.Expect != nil {
		c.expect(s.Expect, specPath.Child("expect"))
	}
	return c.Errors
}

type references struct {
	known
	checker
}

func (r *references) names(at *field.Path, names []string, known sets.Set[string]) {
	for i, name := range names {
		if !known.Has(name) {
			r.Add(field.NotFound(at.Index(i), name))
		}
	}
}

func (r *references) zonalShift(f *v1alpha1.ScenarioZonalShift, at *field.Path) {
	if len(f.Zones) == 0 {
		r.Add(field.Required(at.Child("zones"), "needs a zone"))
	}
	if f.TopologyKey != "" {
		for _, problem := range validation.IsQualifiedName(f.TopologyKey) {
			r.Add(field.Invalid(at.Child("topologyKey"), f.TopologyKey, problem))
		}
	}
	known := r.zones
	if f.TopologyKey != "" && f.TopologyKey != v1.LabelTopologyZone {
		known = r.values[f.TopologyKey]
	}
	for i, zone := range f.Zones {
		if !known.Has(zone) || zone == "" {
			r.Add(field.NotSupported(at.Child("zones").Index(i), zone,
				slices.DeleteFunc(sets.List(known), func(zone string) bool { return zone == "" })))
		}
	}
	r.Period(at, f.From, f.Until)
}

// call checks that a fault of the first calls says which these are.
func (r *references) call(f *v1alpha1.CallFault, at *field.Path) {
	if resizes := len(f.Methods) == 0 || slices.Contains(f.Methods, fake.MethodIncreaseSize); f.First > 0 && resizes && len(f.Groups) != 1 {
		r.Add(field.Forbidden(at.Child("first"),
			"needs exactly one group: groups are resized at the same time, so the order of the calls would be random"))
	}
}

func (r *references) expect(e *v1alpha1.ScenarioExpect, at *field.Path) {
	for _, name := range sets.List(sets.KeySet(e.Sizes)) {
		if !r.known.groups.Has(name) {
			r.Add(field.NotFound(at.Child("sizes").Key(name), name))
		}
		r.NotNegative(at.Child("sizes").Key(name), new(e.Sizes[name]))
	}
	r.NotNegative(at.Child("running"), e.Running)
	r.NotNegative(at.Child("pending"), e.Pending)
	r.NotNegative(at.Child("maxRounds"), e.MaxRounds)
	r.NotNegative(at.Child("nodesOrdered"), e.NodesOrdered)
	r.NotNegative(at.Child("nodesScaledDown"), e.NodesScaledDown)
	for i, set := range e.Sets {
		r.names(at.Child("sets").Index(i), set, r.known.groups)
	}
	for i, d := range e.MaxDifference {
		r.names(at.Child("maxDifference").Index(i).Child("groups"), d.Groups, r.known.groups)
		r.NotNegative(at.Child("maxDifference").Index(i).Child("nodes"), &d.Nodes)
	}
	for _, name := range sets.List(sets.KeySet(e.Subsets)) {
		if r.subsets[name] == nil {
			r.Add(field.NotFound(at.Child("subsets").Key(name), name))
		}
		for _, subset := range sets.List(sets.KeySet(e.Subsets[name])) {
			r.NotNegative(at.Child("subsets").Key(name).Key(subset), new(e.Subsets[name][subset]))
			if subset != "" && r.subsets[name] != nil && !r.subsets[name].Has(subset) {
				r.Add(field.NotSupported(at.Child("subsets").Key(name), subset, sets.List(r.subsets[name])))
			}
		}
	}
	for i, s := range e.Skew {
		if !r.workloads.Has(s.Workload) {
			r.Add(field.NotFound(at.Child("skew").Index(i).Child("workload"), s.Workload))
		}
		r.NotNegative(at.Child("skew").Index(i).Child("pods"), &s.Pods)
	}
}
