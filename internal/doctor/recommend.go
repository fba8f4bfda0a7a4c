package doctor

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/internal/explain"
	"github.com/evenkeel/evenkeel/internal/spelling"
)

// since is the first release of Cluster Autoscaler with which a way works.
var since = map[Way]int{WayExpander: 30, WaySidecar: 34, WayLinked: 36}

// recommend takes the least way that removes all findings that a way removes.
func (d *diagnoser) recommend() {
	r := &d.result.Recommendation
	r.Way = WayNothing
	for _, f := range d.result.Findings {
		if f.Way.beyond(r.Way) {
			r.Way = f.Way
		}
	}
	if minor := since[r.Way]; d.autoscaler != nil && d.autoscaler.Minor > 0 && d.autoscaler.Minor < minor {
		d.find(Finding{
			Severity: Warning, Reason: OldVersion, Message: fmt.Sprintf("Cluster Autoscaler is %s, and what is recommended needs 1.%d",
				d.autoscaler.Version(), minor),
			Remedy: fmt.Sprintf("update Cluster Autoscaler to 1.%d or later first", minor),
		})
	}
	d.oldVersion()
	switch r.Way {
	case WayAutoscaler:
		d.recommendFlags(r)
	case WayExpander:
		d.recommendExpander(r)
	case WaySidecar, WayLinked:
		d.recommendSplitting(r)
	case WayNothing:
		r.Text = d.nothing()
	}
	r.Flags = d.unset(r.Flags)
	r.Command = d.command(r)
	d.noteOperator(r)
	d.result.Answer, d.result.Trial = d.answer(r), d.trial(r)
}

// balanceFlag has Cluster Autoscaler balance by itself.
const balanceFlag = "--balance-similar-node-groups=true"

func (d *diagnoser) trial(r *Recommendation) Trial {
	t := Trial{IgnoreLabels: d.fleet.mine.IgnoreLabels}
	if d.autoscaler != nil {
		t.Now, t.Minor = d.autoscaler.Flags, d.autoscaler.Minor
	}
	t.Recommended = t.Now
	if r.Way == WayAutoscaler {
		flags := r.Flags
		if d.autoscaler == nil { // the cloud has a setting of its own for it
			flags = append([]string{balanceFlag}, flags...)
		}
		t.Recommended = t.Now.With(flags, r.Without)
	}
	t.Expander = t.Now.With([]string{fmt.Sprintf("--max-nodes-per-scaleup=%d", d.perScaleUp())}, nil)
	return t
}

// oldVersion looks for what later releases have mended.
func (d *diagnoser) oldVersion() {
	const spread = 34
	if len(d.lateLabels) > 0 {
		slices.Sort(d.lateLabels)
		from := fmt.Sprintf("1.%d.%d", d.autoscaler.Minor, d.fleet.fixed)
		if d.fleet.fixed == 0 {
			from = "a later minor release"
		}
		d.find(Finding{
			Severity: Warning, Reason: OldVersion,
			Message: fmt.Sprintf("Cluster Autoscaler %s compares %s, which have no meaning and are ignored by later releases",
				d.autoscaler.Version(), spelling.List(slices.Compact(d.lateLabels), few)),
			Remedy: fmt.Sprintf("update Cluster Autoscaler to %s; until then ignore them by flags", from),
		})
	}
	waits := slices.ContainsFunc(d.observed.Pending, func(p explain.PendingSpread) bool { return !p.Soft })
	if d.autoscaler != nil && d.autoscaler.Minor > 0 && d.autoscaler.Minor < spread && waits {
		d.find(Finding{
			Severity: Warning, Reason: OldVersion,
			Message: fmt.Sprintf("pods with a topology spread wait, and Cluster Autoscaler %s orders more nodes than such pods "+
				"need: it does not see that a node of another domain gives room on those before it", d.autoscaler.Version()),
			Remedy: fmt.Sprintf("update Cluster Autoscaler to 1.%d or later", spread),
		})
	}
}

func (d *diagnoser) nothing() string {
	switch {
	case d.autoscaler == nil && d.observed.Status == nil:
		return "no Cluster Autoscaler is seen that could be changed"
	case d.installed != "":
		return fmt.Sprintf("evenkeel balances already (%s)", d.installed)
	case len(d.observed.Groups) == 0:
		return "which node groups there are is not known"
	case !slices.ContainsFunc(d.result.Sets, func(s SetResult) bool { return len(s.Groups) > 1 }):
		return "no two node groups are similar, so there is nothing to balance"
	case len(d.result.Findings) > 0:
		return "no other way of balancing removes what was found"
	case d.autoscaler == nil:
		return "all sets are even"
	}
	return "Cluster Autoscaler finds all sets and balances them by itself"
}

func (d *diagnoser) recommendFlags(r *Recommendation) {
	r.Flags = []string{balanceFlag}
	var labels []string
	for _, f := range d.result.Findings {
		if f.Reason == NodesDiffer && f.Way != "" {
			for _, flag := range f.Flags {
				labels = append(labels, strings.TrimPrefix(flag, ignoredLabel))
			}
		}
	}
	plan := d.fleet.plan(labels)
	if !plan.possible { // the sets are found, and differ in nothing but what similarity that is not transitive leaves open
		plan.flags = append(plan.flags, flagged(ignoredLabel, labels)...)
	}
	r.Flags, r.Without = append(r.Flags, plan.flags...), plan.without
	r.Text = "Cluster Autoscaler alone is enough, with these flags"
	if d.autoscaler == nil {
		r.Flags = plan.flags
		r.Text = "Cluster Autoscaler alone is enough: " + d.managed()
		if len(r.Flags) > 0 {
			r.Text += "; labels to ignore need a Cluster Autoscaler of your own if the cloud has no setting for them"
		}
	}
}

func (d *diagnoser) recommendSplitting(r *Recommendation) {
	// All members of a set grow in one loop if Cluster Autoscaler takes them for similar, too.
	r.Flags = []string{balanceFlag}
	if plan := d.fleet.plan(nil); plan.possible {
		r.Flags, r.Without = append(r.Flags, plan.flags...), plan.without
	}
	r.Text = "run evenkeel sidecar between Cluster Autoscaler and its provider: it sees scale-downs too (docs/sidecar.md)"
	if r.Way == WayLinked {
		r.Text = "run a Cluster Autoscaler with evenkeel linked, which balances scale-downs too, if what they cost is worth a " +
			"build of your own; else do nothing (docs/custom-autoscaler.md)"
	}
	if d.expander() == WayExpander || !slices.ContainsFunc(d.result.Findings,
		func(f Finding) bool { return f.Way == r.Way && f.Reason != Uneven }) {
		return
	}
	text := "evenkeel expander alone needs small increases, and a ProvisioningRequest that is all or nothing needs all its nodes in one: "
	if largest, _ := d.largestRequest(); largest.Pods > 0 {
		text += fmt.Sprintf("the largest here has %s", spelling.Count(largest.Pods, "pod"))
	} else {
		text += fmt.Sprintf("none is there now; if none ever needs more than %d, the expander is enough, with that --max-nodes-per-scaleup",
			mostPerScaleUp)
	}
	d.note(text)
	for _, value := range d.autoscaler.Flags.All("max-nodes-per-scaleup") {
		r.Without = append(r.Without, "--max-nodes-per-scaleup="+value)
	}
}

// perScaleUp bounds an increase that an expander directs: each goes to one group. Each is a call too, of which a scale set of Azure takes
// twelve at once and then four a minute (docs/expander.md). A ProvisioningRequest that is all or nothing is one increase.
func (d *diagnoser) perScaleUp() int {
	const great, many, bound, onAzure = 1000, 300, 10, 5
	largest, _ := d.largestRequest()
	switch {
	case len(d.observed.Nodes) > great:
		return max(mostPerScaleUp, largest.Pods)
	case len(d.observed.Nodes) > many:
		return max(bound, largest.Pods)
	case d.cloud(d.observed.Nodes) == "azure":
		return max(onAzure, largest.Pods)
	}
	return max(1, largest.Pods)
}

// byPrice is the strategy that only Cluster Autoscaler has, since it alone knows the prices of its cloud: it must come before evenkeel.
const byPrice = "price"

// loopsAtOnce is the first release whose loops follow each other at once after an increase. Others wait for ten seconds, if a
// flag does not say otherwise, and each increase takes a loop.
const loopsAtOnce = 35

func (d *diagnoser) recommendExpander(r *Recommendation) {
	strategies, chain := "least-waste", "grpc"
	if d.autoscaler != nil {
		own := d.autoscaler.Flags.Expanders(d.autoscaler.Minor)
		if slices.Contains(own, byPrice) { // which evenkeel does not know
			chain = byPrice + ",grpc"
		}
		own = slices.DeleteFunc(own, func(name string) bool { return name == "grpc" || name == byPrice })
		strategies = cmp.Or(strings.Join(own, ","), strategies)
	}
	// The strategies stand behind it for the case that it does not answer.
	r.Flags = []string{
		"--expander=" + chain + "," + strategies, "--grpc-expander-url=HOST:8087", "--grpc-expander-cert=FILE",
		"--balance-similar-node-groups=false", fmt.Sprintf("--max-nodes-per-scaleup=%d", d.perScaleUp()),
	}
	if d.autoscaler != nil && d.autoscaler.Minor > 0 && d.autoscaler.Minor < loopsAtOnce {
		r.Flags = append(r.Flags, "--frequent-loops-enabled=true")
	}
	if largest, _ := d.largestRequest(); largest.Pods > 0 {
		d.note(fmt.Sprintf("a ProvisioningRequest that is all or nothing gets no room if it needs more nodes than "+
			"--max-nodes-per-scaleup: the largest here has %s", spelling.Count(largest.Pods, "pod")))
	}
	r.Text = fmt.Sprintf("run evenkeel expander with --expander=%s, and let Cluster Autoscaler ask it: its own flags do not give these sets",
		strategies)
	if d.autoscaler == nil {
		r.Text += "; one that a cloud manages cannot, so this needs a Cluster Autoscaler of your own"
	}
}

// unset leaves out flags that have their values already.
func (d *diagnoser) unset(flags []string) []string {
	return slices.DeleteFunc(flags, func(flag string) bool {
		name, value, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
		return d.autoscaler != nil && slices.Contains(d.autoscaler.Flags.All(name), value) && d.autoscaler.Flags.Get(name, "") == value
	})
}

// noteOperator says where flags are set that something else writes.
func (d *diagnoser) noteOperator(r *Recommendation) {
	a := d.autoscaler
	if a == nil || a.owner == nil || len(r.Flags)+len(r.Without) == 0 {
		return
	}
	text := fmt.Sprintf("%s is made by %s %s, which undoes changes of it: set the flags there", a.title(), a.owner.Kind, a.owner.Name)
	if strings.HasPrefix(a.owner.APIVersion, "autoscaling.openshift.io/") {
		text += ", as spec.balanceSimilarNodeGroups and spec.balancingIgnoredLabels; it has no fields for other flags"
	}
	d.note(text)
}

// command is a patch of the workload that sets the flags; empty where it would need a person: words in
// capitals, a shell, no list to add to, flags to take away that are two words, or an operator that undoes it.
func (d *diagnoser) command(r *Recommendation) string {
	a := d.autoscaler
	if a == nil || !a.isPatchable() || len(r.Flags)+len(r.Without) == 0 || r.Way != WayAutoscaler {
		return ""
	}
	type operation struct {
		Op    string  `json:"op"`
		Path  string  `json:"path"`
		Value *string `json:"value,omitempty"`
	}
	field := fmt.Sprintf("/spec/template/spec/containers/%d/%s/", a.position, a.Flags.field)
	var operations []operation
	var added []operation
	for _, flag := range r.Flags {
		name, _, _ := strings.Cut(flag, "=")
		repeated := strings.HasPrefix(name, "--balancing-")
		at := a.Flags.last(name)
		switch {
		case at >= 0 && !repeated && (at < a.Flags.begin || a.Flags.words[at] == name && name != "--balance-similar-node-groups"):
			return ""
		case at >= 0 && !repeated:
			operations = append(operations, operation{"replace", field + fmt.Sprint(at-a.Flags.begin), &flag})
		default:
			added = append(added, operation{"add", field + "-", &flag})
		}
	}
	var places []int
	for _, flag := range r.Without {
		at := slices.Index(a.Flags.words, flag)
		if at < a.Flags.begin {
			return ""
		}
		places = append(places, at-a.Flags.begin)
	}
	slices.Sort(places)
	for _, at := range slices.Backward(places) { // later ones first, as positions move
		operations = append(operations, operation{Op: "remove", Path: field + fmt.Sprint(at)})
	}
	text, err := json.Marshal(append(operations, added...))
	if err != nil || strings.Contains(string(text), "'") {
		return ""
	}
	return fmt.Sprintf("kubectl -n %s patch %s %s --type=json -p '%s'", a.Namespace, strings.ToLower(a.Kind), a.Name, text)
}

func (d *diagnoser) answer(r *Recommendation) string {
	if len(d.result.Findings) == 0 {
		return "nothing to do: " + r.Text
	}
	return spelling.Count(len(d.result.Findings), "finding") + "; " + r.Text
}
