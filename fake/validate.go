package fake

import (
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// MaxNodes is the maximum number of instances and waiting orders of a cloud. Increases beyond it
// fail with ErrOutOfResources.
const MaxNodes = 1_000_000

// neededResources are those without which no pod fits a node.
var neededResources = [...]v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourcePods}

// Validate returns everything that is wrong with the configuration, with paths
// below the one given (nil for none).
func (c Config) Validate(at *field.Path) field.ErrorList {
	v := validator{groups: sets.New[string](), zones: sets.New[string](), nodes: sets.New[string](), quotas: sets.New[string]()}
	each(child(at, "groups"), c.Groups, v.group)
	if v.total > MaxNodes {
		v.add(field.TooMany(child(at, "groups"), v.total, MaxNodes))
	}
	each(child(at, "quotas"), c.Quotas, v.quota)
	each(child(at, "stocks"), c.Stocks, v.stockOut)
	each(child(at, "outages"), c.Outages, v.outage)
	each(child(at, "calls"), c.Calls, v.call)
	v.notNegative(child(at, "podPrices", "core"), int64(c.PodPrices.Core))
	v.notNegative(child(at, "podPrices", "gib"), int64(c.PodPrices.GiB))
	return v.errs
}

// child is at.Child that also takes a nil path.
func child(at *field.Path, name string, more ...string) *field.Path {
	if at == nil {
		return field.NewPath(name, more...)
	}
	return at.Child(name, more...)
}

// each checks the items of a list.
func each[T any](at *field.Path, list []T, check func(*T, *field.Path)) {
	for i := range list {
		check(&list[i], at.Index(i))
	}
}

// validator collects errors and the names it has seen.
type validator struct {
	groups, zones, quotas sets.Set[string]
	nodes                 sets.Set[string] // names and provider ids
	total                 int              // sizes of all groups, limited to a little more than MaxNodes
	errs                  field.ErrorList
}

func (v *validator) add(err *field.Error) { v.errs = append(v.errs, err) }

func (v *validator) notNegative(at *field.Path, value int64) {
	if value < 0 {
		v.add(field.Invalid(at, value, "must not be negative"))
	}
}

func (v *validator) duration(at *field.Path, d time.Duration) {
	if d < 0 {
		v.add(field.Invalid(at, d.String(), "must not be negative"))
	}
}

// unique records a name and reports an error if it is empty or taken.
func (v *validator) unique(at *field.Path, name string, seen sets.Set[string]) {
	switch {
	case name == "":
		v.add(field.Required(at, "needs a name"))
	case seen.Has(name):
		v.add(field.Duplicate(at, name))
	}
	seen.Insert(name)
}

func (v *validator) group(g *Group, at *field.Path) {
	v.unique(at.Child("id"), g.ID, v.groups)
	v.zones.Insert(g.ZoneNames()...)
	seen := sets.New[string]()
	for i, zone := range g.Zones {
		v.unique(at.Child("zones").Index(i), zone, seen)
	}
	if d := Distributions(); g.Distribution != "" && !slices.Contains(d, g.Distribution) {
		v.add(field.NotSupported(at.Child("distribution"), g.Distribution, d))
	}
	v.notNegative(at.Child("minSize"), int64(g.MinSize))
	v.notNegative(at.Child("maxSize"), int64(g.MaxSize))
	v.notNegative(at.Child("size"), int64(g.Size))
	if g.MinSize > g.MaxSize {
		v.add(field.Invalid(at.Child("maxSize"), g.MaxSize, fmt.Sprintf("must not be below minSize %d", g.MinSize)))
	}
	if g.Size > 0 && g.Size < len(g.Nodes) {
		v.add(field.Invalid(at.Child("size"), g.Size, fmt.Sprintf("must not be below the number of nodes given, %d", len(g.Nodes))))
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
		v.add(field.Required(at.Child("node"), "needs a node with capacity"))
		return
	}
	for i, pod := range g.Template.Pods {
		if pod == nil {
			v.add(field.Required(at.Child("pods").Index(i), "needs a pod"))
		}
	}
	status := at.Child("node", "status")
	for _, name := range neededResources {
		if quantity, ok := node.Status.Capacity[name]; !ok || quantity.IsZero() {
			v.add(field.Required(status.Child("capacity").Key(string(name)), "a node without it runs no pod"))
		}
	}
	for _, list := range []struct {
		name      string
		resources v1.ResourceList
	}{{"capacity", node.Status.Capacity}, {"allocatable", node.Status.Allocatable}} {
		for _, name := range slices.Sorted(maps.Keys(list.resources)) {
			if quantity := list.resources[name]; quantity.Sign() < 0 {
				v.add(field.Invalid(status.Child(list.name).Key(string(name)), quantity.String(), "must not be negative"))
			}
		}
	}
}

func (v *validator) node(g *Group, node *v1.Node, at *field.Path) {
	if node == nil {
		v.add(field.Required(at, "needs a node"))
		return
	}
	v.unique(at.Child("metadata", "name"), node.Name, v.nodes)
	if id := g.providerIDOf(node); id != node.Name {
		v.unique(at.Child("spec", "providerID"), id, v.nodes)
	}
}

// scope checks that the selected groups and zones exist.
func (v *validator) scope(s *Scope, at *field.Path) {
	v.known(at.Child("groups"), s.Groups, v.groups)
	v.known(at.Child("zones"), s.Zones, v.zones)
}

func (v *validator) known(at *field.Path, names []string, known sets.Set[string]) {
	for i, name := range names {
		if name == "" || !known.Has(name) {
			v.add(field.NotFound(at.Index(i), name))
		}
	}
}

func (v *validator) window(w *Window, at *field.Path) {
	v.duration(at.Child("start"), w.Start)
	v.duration(at.Child("end"), w.End)
	if w.End != 0 && w.End <= w.Start {
		v.add(field.Invalid(at.Child("end"), w.End.String(), fmt.Sprintf("must be after start %v", w.Start)))
	}
}

func (v *validator) quota(q *Quota, at *field.Path) {
	v.unique(at.Child("name"), q.Name, v.quotas)
	v.scope(&q.Scope, at)
	v.notNegative(at.Child("nodes"), q.Nodes)
	v.notNegative(at.Child("cores"), q.Cores)
	v.notNegative(at.Child("memoryBytes"), q.MemoryBytes)
	if q.Nodes == 0 && q.Cores == 0 && q.MemoryBytes == 0 {
		v.add(field.Required(at, "limits nothing: set nodes, cores or memoryBytes"))
	}
}

func (v *validator) stockOut(s *StockOut, at *field.Path) {
	v.scope(&s.Scope, at)
	v.window(&s.Window, at)
	v.notNegative(at.Child("left"), int64(s.Left))
	v.duration(at.Child("failAfter"), s.FailAfter)
	if modes := []StockOutMode{Refuse, Fail, Silent, NeverRegisters, NeverReady}; s.Mode != "" && !slices.Contains(modes, s.Mode) {
		v.add(field.NotSupported(at.Child("mode"), s.Mode, modes))
	}
	if s.FailAfter > 0 && s.Mode != Fail {
		v.add(field.Forbidden(at.Child("failAfter"), "only with mode Fail"))
	}
}

func (v *validator) outage(o *Outage, at *field.Path) {
	if len(o.Zones) == 0 {
		v.add(field.Required(at.Child("zones"), "needs a zone"))
	}
	v.known(at.Child("zones"), o.Zones, v.zones)
	v.window(&o.Window, at)
	if modes := []OutageMode{Unready, Vanish}; o.Mode != "" && !slices.Contains(modes, o.Mode) {
		v.add(field.NotSupported(at.Child("mode"), o.Mode, modes))
	}
}

func (v *validator) call(f *CallFault, at *field.Path) {
	for i, method := range f.Methods {
		if !slices.Contains(methods[:], method) {
			v.add(field.NotSupported(at.Child("methods").Index(i), method, methods[:]))
		}
	}
	v.known(at.Child("groups"), f.Groups, v.groups)
	v.window(&f.Window, at)
	v.notNegative(at.Child("first"), int64(f.First))
	v.duration(at.Child("delay"), f.Delay)
	if f.Delay == 0 && f.Error == "" {
		v.add(field.Required(at, "does nothing: set delay or error"))
	}
}
