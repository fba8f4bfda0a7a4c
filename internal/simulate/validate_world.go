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

// callMethods are the calls that a fault can affect: those that the pipeline makes.
var callMethods = []string{
	string(fake.MethodRefresh), string(fake.MethodNodeGroups), string(fake.MethodNodeGroupForNode),
	string(fake.MethodTargetSize), string(fake.MethodTemplate), string(fake.MethodOptions), string(fake.MethodNodes),
	string(fake.MethodIncreaseSize), string(fake.MethodDecreaseTargetSize), string(fake.MethodDeleteNodes),
	string(fake.MethodNodePrice),
}

// known are the names that a scenario may refer to once its files are read.
type known struct {
	groups, zones, workloads sets.Set[string]

	subsets map[string]sets.Set[string] // of WorkloadSpreads
	values  map[string]sets.Set[string] // of the labels of groups, by key
}

// validateReferences checks all references to groups, zones or workloads, which may come from
// files.
func validateReferences(s *v1alpha1.ScenarioSpec, names known) field.ErrorList {
	c := &references{known: names}
	quotas, faults := sets.New[string](), specPath.Child("faults")
	admission.Each(specPath.Child("quotas"), s.Quotas, func(q *v1alpha1.ScenarioQuota, at *field.Path) { c.quota(q, quotas, at) })
	admission.Each(faults.Child("stockOuts"), s.Faults.StockOuts, c.stockOut)
	admission.Each(faults.Child("outages"), s.Faults.Outages, c.outage)
	admission.Each(faults.Child("calls"), s.Faults.Calls, c.call)
	admission.Each(faults.Child("zonalShifts"), s.Faults.ZonalShifts, c.zonalShift)
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

func (r *references) quota(q *v1alpha1.ScenarioQuota, seen sets.Set[string], at *field.Path) {
	r.named(at.Child("name"), q.Name, q.Name, seen)
	r.names(at.Child("groups"), q.Groups, r.known.groups)
	r.names(at.Child("zones"), q.Zones, r.zones)
	if q.Nodes == nil && q.Cores == nil && q.Memory == nil {
		r.Add(field.Required(at, "limits nothing: set nodes, cores or memory"))
	}
	positive := func(name string, value *int64) {
		if value != nil && *value < 1 {
			r.Add(field.Invalid(at.Child(name), *value, "must be at least 1"))
		}
	}
	positive("nodes", q.Nodes)
	positive("cores", q.Cores)
	if q.Memory != nil {
		positive("memory", new(q.Memory.Value()))
	}
}

func (r *references) window(w *v1alpha1.FaultWindow, at *field.Path) {
	r.duration(at.Child("from"), &w.From)
	if w.Until != nil && w.Until.Duration <= w.From.Duration {
		r.Add(field.Invalid(at.Child("until"), w.Until.Duration.String(), "must be after from"))
	}
}

func (r *references) stockOut(f *v1alpha1.StockOut, at *field.Path) {
	r.names(at.Child("groups"), f.Groups, r.known.groups)
	r.names(at.Child("zones"), f.Zones, r.zones)
	r.window(&f.FaultWindow, at)
	admission.Option(&r.Checker, at.Child("mode"), f.Mode, v1alpha1.StockOutRefuse, v1alpha1.StockOutFail, v1alpha1.StockOutSilent)
	r.NotNegative(at.Child("left"), &f.Left)
	r.duration(at.Child("failAfter"), f.FailAfter)
	if f.FailAfter != nil && f.Mode != v1alpha1.StockOutFail {
		r.Add(field.Forbidden(at.Child("failAfter"), "only with mode Fail"))
	}
}

func (r *references) outage(f *v1alpha1.Outage, at *field.Path) {
	if len(f.Zones) == 0 {
		r.Add(field.Required(at.Child("zones"), "needs a zone"))
	}
	r.names(at.Child("zones"), f.Zones, r.zones)
	r.window(&f.FaultWindow, at)
	admission.Option(&r.Checker, at.Child("mode"), f.Mode, v1alpha1.OutageUnready, v1alpha1.OutageVanish)
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
			r.Add(field.NotSupported(at.Child("zones").Index(i), zone, slices.DeleteFunc(sets.List(known), func(zone string) bool { return zone == "" })))
		}
	}
	r.window(&f.FaultWindow, at)
}

func (r *references) call(f *v1alpha1.CallFault, at *field.Path) {
	for i, method := range f.Methods {
		if !slices.Contains(callMethods, method) {
			r.Add(field.NotSupported(at.Child("methods").Index(i), method, callMethods))
		}
	}
	r.names(at.Child("groups"), f.Groups, r.known.groups)
	r.window(&f.FaultWindow, at)
	r.NotNegative(at.Child("first"), &f.First)
	if resizes := len(f.Methods) == 0 || slices.Contains(f.Methods, string(fake.MethodIncreaseSize)); f.First > 0 && resizes && len(f.Groups) != 1 {
		r.Add(field.Forbidden(at.Child("first"), "needs exactly one group: groups are resized at the same time, so the order of the calls would be random"))
	}
	r.duration(at.Child("delay"), f.Delay)
	if f.Delay == nil && f.Error == "" {
		r.Add(field.Required(at, "does nothing: set delay or error"))
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
