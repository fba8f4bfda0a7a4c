package main

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/internal/controller"
	statuspage "github.com/evenkeel/evenkeel/internal/page"
	"github.com/evenkeel/evenkeel/internal/serving"
	"github.com/evenkeel/evenkeel/steering"
)

// statusPath is where servers have their page.
const statusPath = "/status"

// longPlan is how long a split may take before somebody should look, as in the alert about it.
const longPlan = 30 * time.Minute

// serveStatus adds a page to the options of a listener.
func serveStatus(web *serving.HTTPOptions, state func() any) {
	p := statuspage.New(state)
	web.Handlers, web.Ending = map[string]http.Handler{statusPath: p}, p.Close
}

// checksOf are the results of the checks of /readyz.
func checksOf(ready map[string]func() error) []statuspage.Check {
	out := []statuspage.Check{}
	for name, problem := range serving.Results(ready) {
		out = append(out, statuspage.Check{Name: name, Problem: problem})
	}
	return out
}

// autoscalerStatus is the state of an expander or a sidecar.
type autoscalerStatus struct {
	statuspage.Common
	steering.Status
}

// autoscalerStatusOf is the state of the server of that name; without a cluster it reads no status of Cluster Autoscaler.
func autoscalerStatusOf(server string, cluster bool, checks []statuspage.Check, s steering.Status) autoscalerStatus {
	s.NotReady = statuspage.Problems(checks)
	s.Ready = s.NotReady == ""
	// Programs need not tell an empty list from none.
	s.Groups = append([]steering.GroupStatus{}, s.Groups...)
	s.Sets = append([][]string{}, s.Sets...)
	s.Decisions = append([]steering.Decision{}, s.Decisions...)
	advice := append(adviceOfChecks(checks), adviceOf(server, &s)...)
	if server == "expander" && cluster && s.LastRefresh.IsZero() {
		advice = append(advice, statuspage.Advise("EvenkeelExpanderStatusOld", "the status of Cluster Autoscaler is not known"))
	}
	return autoscalerStatus{statuspage.Common{Server: server, Checks: checks, Held: heldGroups(&s), Advice: advice}, s}
}

// controllerStatus is the state of the controllers.
type controllerStatus struct {
	statuspage.Common
	Time     time.Time `json:"time"`
	Ready    bool      `json:"ready"`
	NotReady string    `json:"notReady,omitempty"`
	controller.Status
}

func controllerStatusOf(checks []statuspage.Check, s controller.Status, now time.Time) controllerStatus {
	problems := statuspage.Problems(checks)
	held := []statuspage.Held{}
	for _, c := range s.Controllers {
		if c.Waiting != "" {
			held = append(held, statuspage.Held{What: "controller " + c.Name, Why: "does not run: " + c.Waiting})
		}
	}
	if s.Watches != "" {
		held = append(held, statuspage.Held{What: "caches", Why: "are outdated: " + s.Watches})
	}
	common := statuspage.Common{Server: "controller", Checks: checks, Held: held, Advice: adviceOfChecks(checks)}
	return controllerStatus{common, now, problems == "", problems, s}
}

// heldGroups are the groups that do not grow or shrink, and the pods that wait.
func heldGroups(s *steering.Status) []statuspage.Held {
	out := []statuspage.Held{}
	hold := func(group, how, why string) {
		if why != "" {
			out = append(out, statuspage.Held{What: group, Why: how + why})
		}
	}
	for _, g := range s.Groups {
		hold(g.Name, "does not grow: ", g.Shifted)
		hold(g.Name, "does not grow, backed off: ", g.Backoff)
		hold(g.Name, "grows by one node at most: ", g.Limited)
		hold(g.Name, fmt.Sprintf("does not shrink below %d: ", g.Floor), g.FloorWhy)
	}
	if w := s.Withheld; w != nil {
		hold(strings.Join(w.Sets, ", "), "", fmt.Sprintf("%d nodes were not granted in the last loop; about %d pods wait", w.Nodes, w.Pods))
	}
	return out
}

// adviceOfChecks is what to do about checks that fail.
func adviceOfChecks(checks []statuspage.Check) []statuspage.Advice {
	entries := map[string]string{
		"cloud": "EvenkeelCloudUnreadable", "webhooks": "EvenkeelWebhooksIncomplete", "caches": "EvenkeelControllerDoesNotLead",
	}
	out := []statuspage.Advice{}
	for _, c := range checks {
		entry := entries[c.Name]
		if strings.HasSuffix(c.Name, "-certificate") {
			entry = "EvenkeelCertificateExpires"
		}
		if c.Problem != "" && entry != "" {
			out = append(out, statuspage.Advise(entry, "the check "+c.Name+" fails"))
		}
	}
	return out
}

// adviceOf is what to do about the state of an expander or a sidecar.
func adviceOf(server string, s *steering.Status) (out []statuspage.Advice) {
	advise := func(applies bool, entry, why string) {
		if applies {
			out = append(out, statuspage.Advise(entry, why))
		}
	}
	beside := server == "sidecar"
	advise(beside && s.Mode == string(steering.PassThrough), "EvenkeelNotSteering", "increases are passed on without being balanced")
	advise(beside && s.Journal != "kept" && s.Journal != "not read yet", "EvenkeelJournalUnwritable", "the journal cannot be used")
	advise(len(s.InFull) > 0, "EvenkeelGrantedInFull", "increases were granted in full")
	for _, set := range backedOff(s.Groups) {
		advise(true, "EvenkeelSetBackedOff", "no group of the set of "+set+" can grow")
	}
	for _, g := range s.Groups {
		advise(beside && g.Problem != "", "EvenkeelNodeGroupUnreadable", "there is a problem with "+g.Name)
	}
	advise(s.Plan != nil && s.Time.Sub(s.Plan.Since) > longPlan, "EvenkeelPlanNotFinishing", "a split does not end")
	advise(!beside && len(s.Decisions) > 0 && s.Decisions[0].Error != "", "EvenkeelExpanderFails", "the last answer was an error")
	return out
}

// backedOff are the sets none of whose groups may grow, by first group.
func backedOff(groups []steering.GroupStatus) (out []string) {
	free := map[string]bool{}
	for _, g := range groups {
		free[g.Set] = free[g.Set] || g.Backoff == "" && g.Shifted == ""
	}
	for _, g := range groups {
		if closed, known := free[g.Set]; known && !closed && g.Set != "" {
			out = append(out, g.Set)
		}
		delete(free, g.Set)
	}
	return out
}
