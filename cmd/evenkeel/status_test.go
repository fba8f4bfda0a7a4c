package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/internal/controller"
	statuspage "github.com/evenkeel/evenkeel/internal/page"
	"github.com/evenkeel/evenkeel/internal/serving"
	"github.com/evenkeel/evenkeel/steering"
)

// pageAndProbe are what a listener with these checks answers on the page, as JSON, and on /readyz.
func pageAndProbe(t *testing.T, ready map[string]func() error, state func([]statuspage.Check) any) (
	shown map[string]any, html, probe string, code int,
) {
	t.Helper()
	web := serving.HTTPOptions{Ready: ready}
	serveStatus(&web, func() any { return state(checksOf(ready)) })
	server, err := serving.ListenHTTP(t.Context(), "127.0.0.1:0", web)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Run(t.Context()) }()
	defer func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	get := func(path string) (string, int) {
		response, err := http.Get("http://" + server.Address() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		return readAll(t, response), response.StatusCode
	}
	text, _ := get(statusPath + "?format=json")
	if err := json.Unmarshal([]byte(text), &shown); err != nil {
		t.Fatal(err)
	}
	html, _ = get(statusPath)
	probe, code = get("/readyz?verbose")
	return shown, html, probe, code
}

func readAll(t *testing.T, response *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// The page and /readyz agree, whichever check fails.
func TestPageAndProbeAgree(t *testing.T) {
	servers := map[string]func([]statuspage.Check) any{
		"expander": func(c []statuspage.Check) any {
			return autoscalerStatusOf("expander", true, c, steering.Status{Time: time.Now(), Mode: "Steering"})
		},
		"sidecar": func(c []statuspage.Check) any {
			return autoscalerStatusOf("sidecar", true, c, steering.Status{Time: time.Now(), Mode: "Steering"})
		},
	}
	servers["controller"] = func(c []statuspage.Check) any {
		return controllerStatusOf(c, controller.Status{Identity: "a"}, time.Now())
	}
	passes := func() error { return nil }
	all := map[string]func() error{"cloud": passes, "nodes": passes, "provider-certificate": passes, "caches": passes}
	for name, state := range servers {
		for _, failing := range append(slices.Collect(maps.Keys(all)), "") {
			t.Run(name+" "+failing, func(t *testing.T) {
				ready := maps.Clone(all)
				if failing != "" {
					ready[failing] = func() error { return errors.New("<b>broken</b>\nin two lines") }
				}
				shown, html, probe, code := pageAndProbe(t, ready, state)
				if shown["ready"] != (code == http.StatusOK) || shown["ready"] != (failing == "") {
					t.Errorf("the page says ready: %v, /readyz %d %s", shown["ready"], code, probe)
				}
				if strings.Contains(html, "not ready</title>") != (failing != "") || strings.Contains(html, "<b>broken") {
					t.Errorf("the page is %s", html)
				}
				checks, _ := shown["checks"].([]any)
				if len(checks) != len(all) {
					t.Errorf("%d checks, want %d", len(checks), len(all))
				}
				for _, c := range checks {
					check, _ := c.(map[string]any)
					line := fmt.Sprintf("[+]%s ok\n", check["name"])
					if problem, failed := check["problem"]; failed {
						line = fmt.Sprintf("[-]%s failed: %s\n", check["name"], problem)
					}
					if !strings.Contains(probe, line) {
						t.Errorf("/readyz does not have %q: %s", line, probe)
					}
				}
			})
		}
	}
}

// Streams of the page do not delay the end of a server.
func TestStreamsEndWithTheServer(t *testing.T) {
	web := serving.HTTPOptions{Grace: time.Hour}
	serveStatus(&web, func() any { return statuspage.Common{Server: "expander"} })
	server, err := serving.ListenHTTP(t.Context(), "127.0.0.1:0", web)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	response, err := http.Get("http://" + server.Address() + statusPath + "?format=events")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if kind := response.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Errorf("the stream is %s", kind)
	}
	stop()
	if text := readAll(t, response); !strings.HasPrefix(text, "data: <main") {
		t.Errorf("the stream is %q", text)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// What is held back is shown with its reason, and the runbook has every entry that is advised.
func TestHeldBackAndAdvice(t *testing.T) {
	now := time.Now()
	failed := []statuspage.Check{{Name: "cloud", Problem: "x"}, {Name: "caches", Problem: "x"}, {Name: "webhooks", Problem: "x"},
		{Name: "expander-certificate", Problem: "x"}}
	s := steering.Status{
		Time: now, Mode: string(steering.PassThrough), Journal: "cannot be written", InFull: []steering.Decision{{}},
		Groups: []steering.GroupStatus{{Name: "a", Set: "a", Backoff: "out of stock"}, {Name: "b", Set: "a", Shifted: "zone b"},
			{Name: "c", Set: "c", Problem: "no answer", Floor: 3, FloorWhy: "level"}, {Name: "d", Set: "d", Limited: "one at a time"}},
		Plan:     &steering.PlanStatus{Since: now.Add(-time.Hour)},
		Withheld: &steering.WithheldStatus{Nodes: 4, Pods: 9, Sets: []string{"a", "c"}}, Decisions: []steering.Decision{{Error: "no"}},
	}
	var held, advised []string
	for _, h := range autoscalerStatusOf("sidecar", true, failed, s).Held {
		held = append(held, h.What+" "+h.Why)
	}
	want := "a does not grow, backed off: out of stock; b does not grow: zone b; c does not shrink below 3: level; " +
		"d grows by one node at most: one at a time; a, c 4 nodes were not granted in the last loop; about 9 pods wait"
	if got := strings.Join(held, "; "); got != want {
		t.Errorf("held: %s\nwant: %s", got, want)
	}
	runbook, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, server := range []string{"sidecar", "expander"} {
		for _, a := range autoscalerStatusOf(server, true, failed, s).Advice {
			advised = append(advised, strings.TrimPrefix(a.Runbook, "Evenkeel"))
			if !strings.Contains(string(runbook), "\n### "+a.Runbook+"\n") || !strings.HasSuffix(a.URL, "runbook.md#"+strings.ToLower(a.Runbook)) {
				t.Errorf("the runbook has no entry %s, %s", a.Runbook, a.URL)
			}
		}
	}
	const checks = "CloudUnreadable ControllerDoesNotLead CertificateExpires WebhooksIncomplete"
	const states = "NotSteering JournalUnwritable GrantedInFull SetBackedOff NodeGroupUnreadable PlanNotFinishing ExpanderStatusOld ExpanderFails"
	for _, entry := range strings.Fields(checks + " " + states) {
		if !strings.Contains(strings.Join(advised, " "), entry) {
			t.Errorf("%s is not advised: %q", entry, advised)
		}
	}
	for _, server := range []string{"sidecar", "expander"} {
		quiet := autoscalerStatusOf(server, false, nil, steering.Status{Mode: "Steering", Journal: "kept"})
		if len(quiet.Held)+len(quiet.Advice) > 0 {
			t.Errorf("held %v, advice %v of a %s that is well", quiet.Held, quiet.Advice, server)
		}
	}
}

// The page of the controllers says which of them do not run and why, what is outdated, and what they decided.
func TestPageOfControllers(t *testing.T) {
	now := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	s := controller.Status{
		Identity: "host_1", Leading: true, Controllers: []controller.Running{{Name: "balancer"}, {Name: "members", Waiting: "not <installed>"}},
		Watches: "the watch of pods has failed", Decisions: []controller.Decision{
			{Time: now, Call: "Rescaled", Object: "Balancer shop/web", Reason: "from 3 to 4 replicas"},
			{Time: now, Call: "Lost", Object: "MemberCluster b", Reason: "no answer", Warning: true},
		},
	}
	checks := map[string]func() error{"caches": func() error { return errors.New("not filled") }}
	shown, html, _, _ := pageAndProbe(t, checks, func(c []statuspage.Check) any { return controllerStatusOf(c, s, now) })
	for _, want := range []string{
		"<h1>evenkeel controller</h1>", "<code>host_1</code>, leads", "<code>members</code> <span class=\"bad\">does not run: not &lt;installed&gt;",
		"<td><code>controller members</code></td>", "are outdated: the watch of pods has failed", "#evenkeelcontrollerdoesnotlead",
		"<td>Rescaled</td><td><code>Balancer shop/web</code></td>", "<td><span class=\"bad\">no answer</span>",
	} {
		if !strings.Contains(html, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if held, _ := shown["held"].([]any); len(held) != 2 || shown["leading"] != true {
		t.Errorf("JSON is %v", shown)
	}
}
