package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/evenkeel/evenkeel/internal/spelling"
)

// bounds looks for groups and quotas that have no room, and for groups over several zones.
func (d *diagnoser) bounds() {
	for _, set := range d.result.Sets {
		if len(set.Groups) < 2 || d.apart(set.Groups, true) < set.Apart+2 {
			continue
		}
		var full []string
		for _, name := range set.Groups {
			if !d.groups[name].room() {
				full = append(full, name)
			}
		}
		if len(full) == 0 || len(full) == len(set.Groups) {
			continue
		}
		d.find(Finding{
			Severity: Warning, Reason: AtMaximum, Groups: full, Apart: d.apart(set.Groups, true),
			Message: fmt.Sprintf("%s at the maximum, while other groups of %s grow", spelling.List(full, few)+" "+isOrAre(len(full)),
				spelling.List(set.Groups, few)),
			Remedy: "raise the maximum of the group in its cloud, or that of --nodes",
		})
	}
	if d.autoscaler != nil {
		d.quotas()
	}
	var wide []string
	for _, name := range d.names() {
		if len(d.groups[name].Zones) > 1 {
			wide = append(wide, name)
		}
	}
	if len(wide) == 0 {
		return
	}
	remedy := "make one group for each zone"
	if d.fleet.cloud == "aws" {
		remedy += "; until then aws autoscaling suspend-processes --auto-scaling-group-name GROUP --scaling-processes " +
			"AZRebalance keeps the cloud from ending nodes to make its zones even"
	}
	d.find(Finding{
		Severity: Warning, Reason: SeveralZones, Groups: wide,
		Message: fmt.Sprintf("%s over several zones, in which the cloud chooses: Cluster Autoscaler takes all nodes of a "+
			"group for alike, and nothing keeps the zones even", spelling.List(wide, few)+" "+isOrAre(len(wide))),
		Remedy: remedy,
	})
}

func (d *diagnoser) quotas() {
	var cores, memory int64
	for _, n := range d.observed.Nodes {
		cores += n.Status.Capacity.Cpu().Value()
		memory += n.Status.Capacity.Memory().Value()
	}
	memory >>= 30
	for _, q := range []struct {
		flag, what string
		used       int64
	}{
		{"max-nodes-total", "nodes", int64(len(d.observed.Nodes))}, {"cores-total", "cores", cores}, {"memory-total", "GiB of memory", memory},
	} {
		text := d.autoscaler.Flags.Get(q.flag, "")
		most, err := strconv.ParseInt(text[strings.LastIndexByte(text, ':')+1:], 10, 64)
		if err != nil || most <= 0 || q.used < most {
			continue
		}
		d.find(Finding{
			Severity: Error, Reason: QuotaReached, Message: fmt.Sprintf("--%s=%s is reached: the cluster has %d %s, and no group grows", q.flag,
				text, q.used, q.what),
			Flags: []string{"--" + q.flag + "=MORE"}, Remedy: "raise the flag",
		})
	}
}

// nodes looks for what the status says of groups.
func (d *diagnoser) nodes() {
	var missing, unready []string
	gone, broken := 0, 0
	for _, name := range d.names() {
		state := d.groups[name].state
		if state == nil {
			continue
		}
		if state.LongUnregistered > 0 {
			missing, gone = append(missing, name), gone+state.LongUnregistered
		}
		if state.Unready > 0 {
			unready, broken = append(unready, name), broken+state.Unready
		}
		if b := state.Backoff; b != nil {
			share := ""
			if d.othersGrow(name) {
				share = "the others take its share, and "
			}
			d.find(Finding{
				Severity: Warning, Reason: Backoff, Groups: []string{name}, Apart: d.apartOf([]string{name}),
				Message: strings.TrimRight(fmt.Sprintf("%s does not grow since %s, as a scale-up has failed: %s %s", name,
					b.Since.UTC().Format("15:04:05"), b.Code, b.Message), ": "),
				Remedy: "raise the quota or free the capacity in its cloud; " + share + "it grows again after the backoff",
			})
		}
	}
	if gone > 0 {
		d.find(Finding{
			Severity: Warning, Reason: NodesMissing, Groups: missing,
			Message: fmt.Sprintf("%s of %s never became nodes: they count as nodes for balancing until Cluster Autoscaler removes them",
				spelling.Count(gone, "instance"), spelling.List(missing, few)),
			Remedy: "the console of an instance says why its kubelet does not join",
		})
	}
	if broken > 0 {
		d.find(Finding{
			Severity: Warning, Reason: NodesUnready, Groups: unready,
			Message: fmt.Sprintf("%s of %s not ready: they count as nodes for balancing", spelling.Count(broken, "node"),
				spelling.List(unready, few)+" "+isOrAre(broken)),
			Remedy: "kubectl describe nodes says why",
		})
	}
}

// othersGrow reports whether the set of a group has another that can grow: below its maximum and without a backoff.
func (d *diagnoser) othersGrow(name string) bool {
	for _, set := range d.result.Sets {
		if slices.Contains(set.Groups, name) {
			return slices.ContainsFunc(set.Groups, func(other string) bool {
				g := d.groups[other]
				return other != name && g.room() && (g.state == nil || g.state.Backoff == nil)
			})
		}
	}
	return false
}

// apartOf is how uneven the sets of groups are.
func (d *diagnoser) apartOf(names []string) (apart int) {
	for _, set := range d.result.Sets {
		if slices.ContainsFunc(set.Groups, func(name string) bool { return slices.Contains(names, name) }) {
			apart += set.Apart
		}
	}
	return apart
}

// spreads looks for pods that wait for a domain in which no group can give them a node.
func (d *diagnoser) spreads() {
	for i := range d.observed.Pending {
		p := &d.observed.Pending[i]
		if p.Soft || len(p.Binding) == 0 {
			continue
		}
		var full []string
		helps := false
		for _, domain := range p.Domains {
			if !slices.Contains(p.Binding, domain.Name) {
				continue
			}
			for _, g := range domain.Groups {
				switch {
				case g.Blocked:
					full = append(full, g.Group)
				case g.Reason == "":
					helps = true
				}
			}
		}
		if helps {
			continue
		}
		remedy := "make a node group in " + spelling.List(p.Binding, few) + " whose nodes take the pods, or let the constraint be ScheduleAnyway"
		if len(full) > 0 {
			remedy = "raise the maximum of " + spelling.List(full, few)
		}
		d.find(Finding{Severity: Warning, Reason: SpreadHeld, Groups: full, Pods: len(p.Pods), Message: p.Answer, Remedy: remedy})
	}
}
