package fake

import (
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/admission"
)

// MaxNodes is the maximum number of instances and waiting orders of a cloud. Increases beyond it
// fail with ErrOutOfResources.
const MaxNodes = 1_000_000

// neededResources are those without which no pod fits a node.
var neededResources = [...]v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourcePods}

// stockOutModes are the modes that a stock-out of a cloud can have.
var stockOutModes = []string{v1alpha1.StockOutRefuse, v1alpha1.StockOutFail, v1alpha1.StockOutSilent, NeverRegisters, NeverReady}

// Validate returns everything that is wrong with the configuration, with paths
// below the one given (nil for none).
func (c *Config) Validate(at *field.Path) field.ErrorList {
	v := validator{groups: sets.New[string](), nodes: sets.New[string]()}
	admission.Each(at.Child("groups"), c.Groups, v.group)
	if v.total > MaxNodes {
		v.Add(field.TooMany(at.Child("groups"), v.total, MaxNodes))
	}
	v.Add(c.ValidateFaults(at, stockOutModes, methods)...)
	v.notNegative(at.Child("podPrices", "core"), int64(c.PodPrices.Core))
	v.notNegative(at.Child("podPrices", "gib"), int64(c.PodPrices.GiB))
	return v.Errors
}

// validator collects errors and the names it has seen.
type validator struct {
	admission.Checker
	groups sets.Set[string]
	nodes  sets.Set[string] // names and provider ids
	total  int              // sizes of all groups, limited to a little more than MaxNodes
}

func (v *validator) notNegative(at *field.Path, value int64) {
	if value < 0 {
		v.Add(field.Invalid(at, value, "must not be negative"))
	}
}

func (v *validator) duration(at *field.Path, d time.Duration) {
	v.Duration(at, &metav1.Duration{Duration: d})
}

func (v *validator) group(g *Group, at *field.Path) {
	v.Named(at.Child("id"), g.ID, g.ID, v.groups)
	seen := sets.New[string]()
	for i, zone := range g.Zones {
		v.Named(at.Child("zones").Index(i), zone, zone, seen)
	}
	admission.Option(&v.Checker, at.Child("distribution"), g.Distribution, Distributions()...)
	v.notNegative(at.Child("minSize"), int64(g.MinSize))
	v.notNegative(at.Child("maxSize"), int64(g.MaxSize))
	v.notNegative(at.Child("size"), int64(g.Size))
	if g.MinSize > g.MaxSize {
		v.Add(field.Invalid(at.Child("maxSize"), g.MaxSize, fmt.Sprintf("must not be below minSize %d", g.MinSize)))
	}
	if g.Size > 0 && g.Size < len(g.Nodes) {
		v.Add(field.Invalid(at.Child("size"), g.Size, fmt.Sprintf("must not be below the number of nodes given, %d", len(g.Nodes))))
	}
	v.total = min(v.total+min(max(g.Size, len(g.Nodes)), MaxNodes+1), MaxNodes+1)
	v.duration(at.Child("bootTime"), g.BootTime)
	v.duration(at.Child("registrationDelay"), g.RegistrationDelay)
	v.duration(at.Child("listDelay"), g.ListDelay)
	v.duration(at.Child("readyDelay"), g.ReadyDelay)
	v.duration(at.Child("terminationTime"), g.TerminationTime)
	v.notNegative(at.Child("pricePerHour"), int64(g.PricePerHour))
	v.template(g, at.Child("template"))
	for i, node := range g.Nodes {
		v.node(g, node, at.Child("nodes").Index(i))
	}
}

func (v *validator) template(g *Group, at *field.Path) {
	node := g.Template.Node
	if node == nil {
		v.Add(field.Required(at.Child("node"), "needs a node with capacity"))
		return
	}
	for i, pod := range g.Template.Pods {
		if pod == nil {
			v.Add(field.Required(at.Child("pods").Index(i), "needs a pod"))
		}
	}
	status := at.Child("node", "status")
	for _, name := range neededResources {
		if quantity, ok := node.Status.Capacity[name]; !ok || quantity.IsZero() {
			v.Add(field.Required(status.Child("capacity").Key(string(name)), "a node without it runs no pod"))
		}
	}
	for _, list := range []struct {
		name      string
		resources v1.ResourceList
	}{{"capacity", node.Status.Capacity}, {"allocatable", node.Status.Allocatable}} {
		for _, name := range slices.Sorted(maps.Keys(list.resources)) {
			if quantity := list.resources[name]; quantity.Sign() < 0 {
				v.Add(field.Invalid(status.Child(list.name).Key(string(name)), quantity.String(), "must not be negative"))
			}
		}
	}
}

func (v *validator) node(g *Group, node *v1.Node, at *field.Path) {
	if node == nil {
		v.Add(field.Required(at, "needs a node"))
		return
	}
	v.Named(at.Child("metadata", "name"), node.Name, node.Name, v.nodes)
	if id := g.providerIDOf(node); id != node.Name {
		v.Named(at.Child("spec", "providerID"), id, id, v.nodes)
	}
}

// ValidateFaults returns everything that is wrong with the quotas and faults, with the paths that they
// have in a Scenario, where these are the modes that a stock-out and the methods that a fault can have.
func (c *Config) ValidateFaults(at *field.Path, modes, methods []string) field.ErrorList {
	v := faultValidator{groups: sets.New[string](), zones: sets.New[string](), quotas: sets.New[string](), modes: modes, methods: methods}
	for i := range c.Groups {
		v.groups.Insert(c.Groups[i].ID)
		v.zones.Insert(c.Groups[i].ZoneNames()...)
	}
	admission.Each(at.Child("quotas"), c.Quotas, v.quota)
	admission.Each(at.Child("faults", "stockOuts"), c.StockOuts, v.stockOut)
	admission.Each(at.Child("faults", "outages"), c.Outages, v.outage)
	admission.Each(at.Child("faults", "calls"), c.Calls, v.call)
	return v.Errors
}

// faultValidator collects errors in quotas and faults, by the names and words that these may have.
type faultValidator struct {
	admission.Checker
	groups, zones, quotas sets.Set[string]
	modes, methods        []string
}

func (v *faultValidator) known(at *field.Path, names []string, known sets.Set[string]) {
	for i, name := range names {
		if name == "" || !known.Has(name) {
			v.Add(field.NotFound(at.Index(i), name))
		}
	}
}

func (v *faultValidator) quota(q *v1alpha1.ScenarioQuota, at *field.Path) {
	v.Named(at.Child("name"), q.Name, q.Name, v.quotas)
	v.known(at.Child("groups"), q.Groups, v.groups)
	v.known(at.Child("zones"), q.Zones, v.zones)
	if q.Nodes == nil && q.Cores == nil && q.Memory == nil {
		v.Add(field.Required(at, "limits nothing: set nodes, cores or memory"))
	}
	positive := func(name string, value *int64) {
		if value != nil && *value < 1 {
			v.Add(field.Invalid(at.Child(name), *value, "must be at least 1"))
		}
	}
	positive("nodes", q.Nodes)
	positive("cores", q.Cores)
	if q.Memory != nil {
		positive("memory", new(q.Memory.Value()))
	}
}

func (v *faultValidator) stockOut(s *v1alpha1.StockOut, at *field.Path) {
	v.known(at.Child("groups"), s.Groups, v.groups)
	v.known(at.Child("zones"), s.Zones, v.zones)
	v.Period(at, s.From, s.Until)
	admission.Option(&v.Checker, at.Child("mode"), s.Mode, v.modes...)
	v.NotNegative(at.Child("left"), &s.Left)
	v.Duration(at.Child("failAfter"), s.FailAfter)
	if s.FailAfter != nil && s.Mode != v1alpha1.StockOutFail {
		v.Add(field.Forbidden(at.Child("failAfter"), "only with mode Fail"))
	}
}

func (v *faultValidator) outage(o *v1alpha1.Outage, at *field.Path) {
	if len(o.Zones) == 0 {
		v.Add(field.Required(at.Child("zones"), "needs a zone"))
	}
	v.known(at.Child("zones"), o.Zones, v.zones)
	v.Period(at, o.From, o.Until)
	admission.Option(&v.Checker, at.Child("mode"), o.Mode, v1alpha1.OutageUnready, v1alpha1.OutageVanish)
}

func (v *faultValidator) call(f *v1alpha1.CallFault, at *field.Path) {
	for i, method := range f.Methods {
		if !slices.Contains(v.methods, method) {
			v.Add(field.NotSupported(at.Child("methods").Index(i), method, v.methods))
		}
	}
	v.known(at.Child("groups"), f.Groups, v.groups)
	v.Period(at, f.From, f.Until)
	v.NotNegative(at.Child("first"), &f.First)
	v.Duration(at.Child("delay"), f.Delay)
	if f.Delay == nil && f.Error == "" {
		v.Add(field.Required(at, "does nothing: set delay or error"))
	}
}
