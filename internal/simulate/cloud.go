package simulate

import (
	"cmp"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
)

var stockOutModes = map[string]fake.StockOutMode{
	"":                      fake.Refuse,
	v1alpha1.StockOutRefuse: fake.Refuse,
	v1alpha1.StockOutFail:   fake.Fail,
	v1alpha1.StockOutSilent: fake.Silent,
}

var outageModes = map[string]fake.OutageMode{
	"":                     fake.Unready,
	v1alpha1.OutageUnready: fake.Unready,
	v1alpha1.OutageVanish:  fake.Vanish,
}

func setDuration(to *time.Duration, from *metav1.Duration) {
	if from != nil {
		*to = from.Duration
	}
}

// cloudGroup is the group of a template, without nodes yet.
func cloudGroup(name string, template *v1.Node, t *v1alpha1.NodeTimes) fake.Group {
	g := fake.Group{
		ID:              name,
		Template:        cloudprovider.Template{Node: template},
		BootTime:        DefaultBootTime,
		ReadyDelay:      DefaultReadyDelay,
		TerminationTime: DefaultTerminationTime,
	}
	setDuration(&g.BootTime, t.BootTime)
	setDuration(&g.RegistrationDelay, t.RegistrationDelay)
	setDuration(&g.ReadyDelay, t.ReadyDelay)
	setDuration(&g.ListDelay, t.ListDelay)
	setDuration(&g.TerminationTime, t.TerminationTime)
	return g
}

// inlineGroup is a group written out in the scenario.
func inlineGroup(g *v1alpha1.ScenarioNodeGroup, machines map[string]*v1alpha1.ScenarioMachine) fake.Group {
	price := g.Price
	template := g.Template
	if machine := machines[g.Machine]; template == nil {
		template = machineNode(g, machine)
		price = cmp.Or(price, machine.Price)
	}
	out := cloudGroup(g.Name, dress(template, g), &g.NodeTimes)
	out.Zones, out.Distribution = g.Zones, fake.Distribution(g.Distribution)
	out.MinSize, out.MaxSize, out.Size = int(g.Min), int(*g.Max), int(g.Size)
	out.PricePerHour = micros(price)
	if g.AllOrNothing {
		out.Options = &cloudprovider.GroupOptions{ZeroOrMaxNodeScaling: true}
	}
	return out
}

func micros(price *resource.Quantity) cloudprovider.Price {
	if price == nil {
		return 0
	}
	return cloudprovider.Price(price.ScaledValue(resource.Micro))
}

// cloudQuotas are the quotas as the cloud enforces them.
func cloudQuotas(quotas []v1alpha1.ScenarioQuota) []fake.Quota {
	var all []fake.Quota
	for _, q := range quotas {
		out := fake.Quota{Name: q.Name, Scope: fake.Scope{Groups: q.Groups, Zones: q.Zones}}
		if q.Nodes != nil {
			out.Nodes = *q.Nodes
		}
		if q.Cores != nil {
			out.Cores = *q.Cores
		}
		if q.Memory != nil {
			out.MemoryBytes = q.Memory.Value()
		}
		all = append(all, out)
	}
	return all
}

// addFaults puts the faults, already checked, into the cloud.
func addFaults(c *fake.Config, f *v1alpha1.ScenarioFaults) {
	window := func(w *v1alpha1.FaultWindow) fake.Window {
		out := fake.Window{Start: w.From.Duration}
		setDuration(&out.End, w.Until)
		return out
	}
	for i := range f.StockOuts {
		s := &f.StockOuts[i]
		out := fake.StockOut{
			Scope: fake.Scope{Groups: s.Groups, Zones: s.Zones}, Window: window(&s.FaultWindow),
			Mode: stockOutModes[s.Mode], Left: int(s.Left),
		}
		setDuration(&out.FailAfter, s.FailAfter)
		c.Stocks = append(c.Stocks, out)
	}
	for i := range f.Outages {
		o := &f.Outages[i]
		c.Outages = append(c.Outages, fake.Outage{Zones: o.Zones, Window: window(&o.FaultWindow), Mode: outageModes[o.Mode]})
	}
	for i := range f.Calls {
		call := &f.Calls[i]
		out := fake.CallFault{
			Groups: call.Groups, Window: window(&call.FaultWindow), First: int(call.First),
			Error: call.Error, AfterEffect: call.AfterEffect,
		}
		for _, method := range call.Methods {
			out.Methods = append(out.Methods, fake.Method(method))
		}
		setDuration(&out.Delay, call.Delay)
		c.Calls = append(c.Calls, out)
	}
}
