package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/autoscalerstatus"
	"github.com/evenkeel/evenkeel/internal/spelling"
)

// few is how many names a sentence has.
const few = 5

// staleAfter is when a status is too old for an autoscaler that runs: its loops take seconds.
const staleAfter = 5 * time.Minute

// diagnoser collects the result.
type diagnoser struct {
	observed   *Observation
	autoscaler *Autoscaler // nil if it is not visible
	groups     map[string]*Group
	installed  Way // what evenkeel does already; empty if it does not
	fleet      *fleet
	lateLabels []string // of fleet.late, by which groups differ
	result     Result
}

// Diagnose says what is wrong and what helps. The error is about a template that cannot be compared.
func Diagnose(o *Observation) (*Diagnosis, error) {
	d := &diagnoser{observed: o, autoscaler: o.Autoscaler(), groups: map[string]*Group{}, result: Result{
		Autoscalers: []AutoscalerResult{}, Groups: []GroupResult{}, Sets: []SetResult{}, Findings: []Finding{}, Notes: slices.Clone(o.Notes),
	}}
	d.findAutoscaler()
	d.status()
	d.readGroups()
	d.readFleet()
	if err := d.fleet.fill(); err != nil {
		return nil, err
	}
	d.ignored()
	d.sets()
	d.bounds()
	d.nodes()
	d.spreads()
	if len(o.Missing) > 0 {
		d.find(Finding{
			Severity: Warning, Reason: MissingRights, Message: "not everything may be read: " + strings.Join(o.Missing, "; "),
			Remedy: "give the user the rights that the message names",
		})
	}
	d.recommend()
	slices.SortStableFunc(d.result.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), -cmp.Compare(a.Apart, b.Apart))
	})
	return &Diagnosis{APIVersion: v1alpha1.APIVersion, Kind: Kind, Status: d.result}, nil
}

// findAutoscaler looks for Cluster Autoscaler, and whether evenkeel is asked by it.
func (d *diagnoser) findAutoscaler() {
	if len(d.observed.Pools) > 0 {
		d.note("Karpenter makes the nodes of " + spelling.List(d.observed.Pools, few) +
			"; they are of no node group, and nothing here is about them")
	}
	all := d.observed.Autoscalers()
	for i := range all {
		a := &all[i]
		d.result.Autoscalers = append(d.result.Autoscalers, AutoscalerResult{
			Kind: a.Kind, Namespace: a.Namespace, Name: a.Name, Image: a.Image, Version: a.Version(), Provider: a.Flags.Get("cloud-provider", ""),
			Balancing: a.Flags.Is("balance-similar-node-groups", false), Expander: strings.Join(a.Flags.Expanders(a.Minor), ","),
			AsksGRPC: a.Flags.asks(),
		})
		if a.Ready == 0 {
			object := strings.ToLower(a.Kind) + " " + a.Name
			why, remedy := "none of its pods is ready", fmt.Sprintf("kubectl -n %s describe %s says why", a.Namespace, object)
			if a.Replicas == 0 {
				why, remedy = "it is scaled to zero", fmt.Sprintf("kubectl -n %s scale %s --replicas=1", a.Namespace, object)
			}
			d.find(Finding{
				Severity: Error, Reason: AutoscalerDown, Message: fmt.Sprintf("%s does not run: %s", a.title(), why), Remedy: remedy,
			})
		}
	}
	switch {
	case d.autoscaler == nil && d.observed.Status == nil:
		message := "no Cluster Autoscaler is seen: neither a Deployment or pod of it nor its status"
		if len(d.observed.Pools) > 0 {
			message += "; Karpenter is all that makes nodes"
		}
		d.find(Finding{Severity: Warning, Reason: NoAutoscaler, Message: message,
			Remedy: "without one nothing resizes node groups, and there is nothing to balance; if one runs, give its Deployment with the " +
				"files or, where the cloud runs it, its ConfigMap cluster-autoscaler-status of namespace kube-system"})
	case d.autoscaler == nil:
		d.result.Autoscalers = append(d.result.Autoscalers, AutoscalerResult{Kind: "Hidden"})
		d.note("Cluster Autoscaler runs where it cannot be seen, as one that the cloud manages; its flags are unknown")
	case len(all) > 1:
		var names []string
		for i := range all {
			names = append(names, all[i].title())
		}
		d.find(Finding{
			Severity: Warning, Reason: SeveralAutoscalers, Message: "Cluster Autoscaler is there more than once: " + spelling.List(names, few) +
				"; what follows is about the first",
			Remedy: "leave one for each node group: several of them resize the same groups",
		})
	}
	if d.autoscaler != nil && d.autoscaler.Minor == 0 {
		d.note("the tag of " + d.autoscaler.Image + " does not say which release it is, so what only some releases do wrong is left out")
	}
	d.asked()
}

// balances reports whether Cluster Autoscaler is seen, and balances by itself.
func (d *diagnoser) balances() bool {
	return d.autoscaler != nil && d.autoscaler.Flags.Is("balance-similar-node-groups", false)
}

func (a *Autoscaler) title() string {
	return fmt.Sprintf("%s %s/%s", strings.ToLower(a.Kind), a.Namespace, a.Name)
}

// asked looks whether Cluster Autoscaler asks an evenkeel that is there.
func (d *diagnoser) asked() {
	if d.autoscaler == nil {
		return
	}
	balancing := d.balances()
	if d.autoscaler.Linked && balancing {
		d.installed = WayLinked
	}
	if len(d.observed.Steering) == 0 {
		if d.autoscaler.Flags.asks() {
			d.note("Cluster Autoscaler asks an expander at " + d.autoscaler.Flags.Get("grpc-expander-url", "") +
				"; if that is evenkeel, add its Deployment to the files")
		}
		return
	}
	s := slices.MaxFunc(d.observed.Steering, func(a, b Steering) int {
		return cmp.Compare(slices.Index(ways, a.Way), slices.Index(ways, b.Way))
	})
	chain := d.autoscaler.Flags.Expanders(d.autoscaler.Minor)
	at := slices.Index(chain, "grpc")
	switch {
	case !d.autoscaler.Flags.asks():
		d.find(Finding{
			Severity: Error, Reason: NotAsked,
			Message: fmt.Sprintf("evenkeel runs in %s %s/%s, but Cluster Autoscaler does not ask it: --expander is %s", strings.ToLower(s.Kind),
				s.Namespace, s.Name, strings.Join(chain, ",")),
			Flags:  []string{"--expander=grpc," + chain[0], "--grpc-expander-url=HOST:8087", "--grpc-expander-cert=FILE"},
			Remedy: "set the flags, with the address and the certificate of evenkeel",
		})
		return
	case slices.ContainsFunc(chain[:at], func(name string) bool { return name != byPrice }):
		d.find(Finding{
			Severity: Warning, Reason: AskedLate,
			Message: fmt.Sprintf("--expander=%s asks evenkeel about what %s leaves, which may be a single group of a set", strings.Join(chain, ","),
				strings.Join(chain[:at], ",")),
			Flags:  []string{"--expander=grpc," + strings.Join(slices.Delete(slices.Clone(chain), at, at+1), ",")},
			Remedy: "let evenkeel be asked first, and give it these strategies",
		})
	}
	d.installed = s.Way
	if d.installed == WayExpander {
		d.scaleUps(balancing)
	}
}

// mostPerScaleUp is the largest increase with which an expander still makes sets even: each goes to one group.
const mostPerScaleUp = 20

// expander is the least way in which evenkeel chooses the groups: as an expander alone, which needs small increases, or in one that
// splits increases of any size, if a ProvisioningRequest needs a large one. Such a request gets all its nodes at once or none.
func (d *diagnoser) expander() Way {
	largest, served := d.largestRequest()
	switch {
	case !served || largest.Pods > 0 && largest.Pods <= mostPerScaleUp:
		return WayExpander
	case d.autoscaler.Flags.Get("cloud-provider", "") == "externalgrpc":
		return WaySidecar
	}
	return WayLinked
}

// largestRequest is the ProvisioningRequest with the most pods, without any if there is none. Cluster Autoscaler
// serves them only if it is started so.
func (d *diagnoser) largestRequest() (largest Request, served bool) {
	if d.autoscaler == nil || !d.autoscaler.Flags.Is("enable-provisioning-requests", false) {
		return Request{}, false
	}
	for _, r := range d.observed.Requests {
		if r.Pods > largest.Pods {
			largest = r
		}
	}
	return largest, true
}

// scaleUps looks whether increases are small enough for an expander to make sets even, and large enough for each ProvisioningRequest.
func (d *diagnoser) scaleUps(balancing bool) {
	const name = "max-nodes-per-scaleup"
	largest, _ := d.largestRequest()
	bound, err := strconv.Atoi(d.autoscaler.Flags.Get(name, "1000"))
	if !balancing && d.autoscaler.Minor > 0 && d.autoscaler.Minor < 35 && !d.autoscaler.Flags.Is("frequent-loops-enabled", false) {
		d.find(Finding{
			Severity: Warning, Reason: SlowLoops,
			Message: fmt.Sprintf("each increase takes Cluster Autoscaler %s a loop, which it begins every --scan-interval only, "+
				"ten seconds if nothing else is set", d.autoscaler.Version()),
			Flags: []string{"--frequent-loops-enabled=true"}, Remedy: "set the flag: loops follow each other at once while pods are pending",
		})
	}
	f := Finding{Flags: []string{fmt.Sprintf("--%s=%d", name, d.perScaleUp())}}
	f.Remedy = "set the flag: groups end within as many nodes of the even split"
	split := "let evenkeel split the increases, and take the flag away"
	switch {
	case balancing:
		d.note("Cluster Autoscaler balances by itself too, so evenkeel chooses the set, and Cluster Autoscaler splits over " +
			"the groups that it takes for similar")
		return
	case err == nil && bound > mostPerScaleUp:
		f.Severity, f.Reason = Error, LargeScaleUps
		f.Message = fmt.Sprintf("--%s is %d, and up to so many nodes go to one group whatever evenkeel chooses", name, bound)
		split = "let evenkeel split the increases, as ProvisioningRequests need large ones"
	case err == nil && largest.Pods > bound:
		f.Severity, f.Reason = Warning, RequestTooLarge
		f.Message = fmt.Sprintf("the ProvisioningRequest %s has %d pods and may need as many nodes at once, "+
			"but --%s is %d: then it is never provisioned", largest.Name, largest.Pods, name, bound)
	default:
		return
	}
	if way := d.expander(); way != WayExpander {
		f.Way, f.Flags, f.Remedy = way, nil, split
	}
	d.find(f)
}

func (d *diagnoser) status() {
	s := d.observed.Status
	switch {
	case s == nil && d.autoscaler != nil && !d.autoscaler.Flags.Is("write-status-configmap", true):
		d.note("Cluster Autoscaler writes no status, so sizes are numbers of nodes, and backoffs are not seen")
	case s == nil && d.autoscaler != nil:
		d.find(Finding{
			Severity: Warning, Reason: NoStatus, Message: cmp.Or(d.observed.StatusProblem,
				"Cluster Autoscaler has no status: its ConfigMap is not there, so sizes are numbers of nodes"),
			Remedy: "give the ConfigMap cluster-autoscaler-status with the files, or the right to read it; Cluster Autoscaler " +
				"writes it at the end of each loop",
		})
	case s == nil:
	case !s.Running:
		d.find(Finding{
			Severity: Error, Reason: OldStatus, Message: strings.TrimSuffix("Cluster Autoscaler has not ended a loop yet: "+s.Message, ": "),
			Remedy: "its log says what it waits for",
		})
	case s.Time.IsZero():
		d.note("the status has no time, so whether it is old is not seen")
	case !d.observed.Now.IsZero() && d.observed.Now.Sub(s.Time) > staleAfter:
		d.find(Finding{
			Severity: Error, Reason: OldStatus, Message: fmt.Sprintf("the last loop of Cluster Autoscaler began %s ago",
				d.observed.Now.Sub(s.Time).Round(time.Second)),
			Remedy: "its log says why it stands still",
		})
	}
	if s != nil && !s.Time.IsZero() && len(d.result.Autoscalers) > 0 {
		d.result.Autoscalers[0].StatusTime = s.Time.UTC().Format(time.RFC3339)
	}
}

// readGroups joins the groups with the status.
func (d *diagnoser) readGroups() {
	states := map[string]*autoscalerstatus.Group{}
	if d.observed.Status != nil {
		for i := range d.observed.Status.Groups {
			states[d.observed.Status.Groups[i].Name] = &d.observed.Status.Groups[i]
		}
	}
	slices.SortFunc(d.observed.Groups, func(a, b Group) int { return strings.Compare(a.Name, b.Name) })
	var unknown []string
	for i := range d.observed.Groups {
		g := &d.observed.Groups[i]
		g.state = states[g.Known]
		if g.state != nil {
			g.Min, g.Max, g.Bounded = g.state.MinSize, g.state.MaxSize, true
		}
		d.groups[g.Name] = g
		row := GroupResult{Name: g.Name, Zones: g.Zones, Size: g.size(), Ready: len(g.Nodes)}
		if g.Known != g.Name {
			row.Cloud = g.Known
		}
		if g.Bounded {
			row.Min, row.Max = &g.Min, &g.Max
		}
		if g.state != nil {
			row.Ready, row.State = g.state.Ready, string(g.state.ScaleUp)
		}
		d.result.Groups = append(d.result.Groups, row)
		if g.Template == nil {
			unknown = append(unknown, g.Name)
		}
	}
	if len(unknown) > 0 {
		d.note(fmt.Sprintf("without a node, so that what a new one looks like is not seen here: %s; Cluster Autoscaler "+
			"compares its cloud's template of such a group with real nodes of others: --snapshot reads it",
			spelling.List(unknown, few)))
	}
	if len(d.observed.Fixed) > 0 {
		d.note("control planes and groups that are not in the status are left out: " + spelling.List(d.observed.Fixed, few))
	}
	if len(d.observed.Groups) == 0 && (d.autoscaler != nil || d.observed.Status != nil) {
		d.find(Finding{
			Severity: Warning, Reason: NoGroups, Message: cmp.Or(d.observed.GroupsProblem, "no node group was found"),
			Remedy: "--group-label names the label whose value is the group of a node",
		})
	}
}
