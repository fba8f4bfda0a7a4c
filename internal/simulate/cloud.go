package simulate

import (
	"cmp"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/zonalshift"
)

// durationOr is a duration of the document, or another if it is not given.
func durationOr(given *metav1.Duration, otherwise time.Duration) time.Duration {
	return ptr.Deref(given, metav1.Duration{Duration: otherwise}).Duration
}

// cloudGroup is the group of a template, without nodes yet.
func cloudGroup(name string, template *v1.Node, t *v1alpha1.NodeTimes) fake.Group {
	return fake.Group{
		ID:                name,
		Template:          cloudprovider.Template{Node: template},
		BootTime:          durationOr(t.BootTime, DefaultBootTime),
		RegistrationDelay: durationOr(t.RegistrationDelay, 0),
		ReadyDelay:        durationOr(t.ReadyDelay, DefaultReadyDelay),
		ListDelay:         durationOr(t.ListDelay, 0),
		TerminationTime:   durationOr(t.TerminationTime, DefaultTerminationTime),
	}
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
	amount := ptr.Deref(price, resource.Quantity{})
	return cloudprovider.Price(amount.ScaledValue(resource.Micro))
}

// zonalShifts are the shifts of a scenario, already checked, as users mark them.
func zonalShifts(faults []v1alpha1.ScenarioZonalShift) []zonalshift.Mark {
	var marks []zonalshift.Mark
	for i := range faults {
		f := &faults[i]
		for _, zone := range f.Zones {
			m := zonalshift.Mark{Domain: zonalshift.DomainOf(f.TopologyKey, zone), Reason: f.Reason, Since: epoch.Add(f.From.Duration)}
			if f.Until != nil {
				m.Until = epoch.Add(f.Until.Duration)
			}
			marks = append(marks, m)
		}
	}
	return marks
}
