package page_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evenkeel/evenkeel/internal/page"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/steering"
)

var update = flag.Bool("update", false, "write the golden files")

var now = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

// state is that of a sidecar.
type state struct {
	page.Common
	steering.Status
}

// busy has something of everything.
func busy() state {
	common := page.Common{
		Server: "sidecar", Checks: []page.Check{{Name: "cloud", Problem: "no answer"}, {Name: "nodes"}},
		Held:   []page.Held{{What: "m-b", Why: "does not grow", Since: now.Add(-time.Minute)}},
		Advice: []page.Advice{page.Advise("EvenkeelNotSteering", "why")},
	}
	return state{common, steering.Status{
		Time: now, Mode: "Steering", Ready: true, Autoscaler: "process first seen at 11:00:00",
		LastRefresh: now.Add(-4 * time.Second), RefreshTook: "120ms", Journal: "ConfigMap kube-system/evenkeel-journal",
		Groups: []steering.GroupStatus{
			{Name: "gpu", Size: 2, Max: 4, Ready: 2},
			{Name: "m-b", Set: "m-a", Zone: "b", Size: 3, Min: 1, Max: 9, Ready: 3, Backoff: "out of stock, until 12:05:00"},
			{Name: "m-a", Set: "m-a", Zone: "a", Size: 4, Max: 9, Ready: 1, InFlight: 3, Unseen: 2, Floor: 3,
				FloorWhy: "one per loop may go, so that the set stays level"},
			{Name: "x", Set: "x", Size: 1, Max: 1, Problem: "template has no cpu"},
		},
		Sets: [][]string{{"m-a", "m-b"}, {"x"}},
		Uneven: []steering.UnevenStatus{{Set: "m-a", Since: now.Add(-time.Hour), Why: "m-b has 3 of 5: backed off",
			Members: []steering.PlanMember{{Name: "m-a", Size: 7, NewSize: 5}, {Name: "m-b", Size: 3, NewSize: 5, Why: "backed off"}}}},
		Plan: &steering.PlanStatus{Since: now.Add(-90 * time.Second), Chosen: "m-a", Why: "least waste", Need: 5, Granted: 3,
			Members: []steering.PlanMember{
				{Name: "m-a", Size: 1, NewSize: 4}, {Name: "m-b", Size: 3, NewSize: 3, Why: "backed off"},
			}},
		Decisions: []steering.Decision{
			{Time: now.Add(-time.Second), Call: "IncreaseSize", Group: "m-a", Asked: 5, Granted: 3, Reason: "its share of the split",
				Members: []steering.PlanMember{{Name: "m-a", Size: 1, NewSize: 4}, {Name: "m-b", Size: 3, NewSize: 3, Why: "backed off"}}},
			{Time: now.Add(-2 * time.Second), Call: "BestOptions", Reason: "no option is usable", Error: "deadline exceeded"},
		},
		InFull: []steering.Decision{{Time: now.Add(-time.Hour), Call: "IncreaseSize", Group: "m-a", Asked: 4, Granted: 4, InFull: true,
			Reason: "in full: the journal cannot be used"}},
		Apart: []steering.ApartStatus{{
			Pair: nodegroupset.Pair{Left: "m-a", Right: "x", Differences: []nodegroupset.Difference{
				{Field: "labels[pool]", Left: new("m"), Limit: "equal"},
				{Field: "capacity.memory", Left: new("8Gi"), Right: new("9Gi"), Ratio: "0.11", Limit: "0.015"},
			}},
			Remedy: nodegroupset.Remedy{Obstacles: []string{"the label pool says which pods go where"}, Cautions: []string{"pods may move"}},
		}},
		Warnings: []string{"Cluster Autoscaler balances, too: pass --balance-similar-node-groups=false"},
		Suggestion: &nodegroupset.Remedy{Flags: []string{"--balancing-ignore-label=pool", "--memory-difference-ratio=0.12"}, Sets: 1,
			Joined: [][]string{{"m-a", "m-b", "x"}}},
	}}
}

func ask(t *testing.T, status state, method, target, accept string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), method, target, http.NoBody)
	if accept != "" {
		request.Header.Set("Accept", accept)
	}
	response := httptest.NewRecorder()
	page.New(func() any { return status }).ServeHTTP(response, request)
	return response
}

func TestPages(t *testing.T) {
	starting := state{page.Common{Server: "expander"}, steering.Status{Time: now, Mode: "PassThrough",
		ModeReason: "the journal cannot be kept", NotReady: "the backend does not answer", Decisions: []steering.Decision{}}}
	for name, status := range map[string]state{"busy": busy(), "starting": starting} {
		for _, format := range []string{"html", "json"} {
			got := ask(t, status, http.MethodGet, "/status?format="+format, "").Body.Bytes()
			golden := filepath.Join("testdata", name+"."+format)
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s differs; -update writes it:\n%s", golden, diff)
			}
		}
	}
}

// TestJSONIsTheStatus: nothing is lost.
func TestJSONIsTheStatus(t *testing.T) {
	status := busy()
	status.Apart = nil // differences are only written
	var got state
	if err := json.Unmarshal(ask(t, status, http.MethodGet, "/?format=json", "").Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(status, got); diff != "" {
		t.Error(diff)
	}
}

func TestFormats(t *testing.T) {
	const asHTML, asJSON = "text/html; charset=utf-8", "application/json"
	for i, test := range []struct {
		method, target, accept string
		code                   int
		kind                   string
	}{
		{"GET", "/status", "", 200, asHTML},
		{"GET", "/status", "*/*", 200, asHTML},
		{"GET", "/status", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", 200, asHTML},
		{"GET", "/status", "application/json", 200, asJSON},
		{"GET", "/status", "application/json, text/plain, */*;q=0.5", 200, asJSON},
		{"GET", "/status", "application/json;q=0.5, text/html", 200, asHTML},
		{"GET", "/status", ";;;,q=,\x00", 200, asHTML},
		{"GET", "/status?format=json", "text/html", 200, asJSON},
		{"GET", "/status?format=html", "application/json", 200, asHTML},
		{"HEAD", "/status", "text/event-stream", 200, "text/event-stream"},
		{"HEAD", "/status", "", 200, asHTML},
		{"GET", "/status?format=xml", "", 400, "text/plain; charset=utf-8"},
		{"POST", "/status", "", 405, "text/plain; charset=utf-8"},
	} {
		response := ask(t, busy(), test.method, test.target, test.accept)
		header := response.Header()
		if response.Code != test.code || header.Get("Content-Type") != test.kind {
			t.Errorf("request %d answers %d %s, want %d %s", i, response.Code, header.Get("Content-Type"), test.code, test.kind)
		}
		if header.Get("Cache-Control") != "no-store" || header.Get("Vary") != "Accept" || !strings.Contains(header.Get("Content-Security-Policy"),
			"default-src 'none'") {
			t.Errorf("request %d has headers %v", i, header)
		}
	}
}

// TestEverythingIsEscaped: markup in any text of the status shows as text.
func TestEverythingIsEscaped(t *testing.T) {
	const markup = `"><script>alert('x')</script>`
	status := busy()
	poisoned := poison(reflect.ValueOf(&status).Elem(), markup)
	text := ask(t, status, http.MethodGet, "/status", "").Body.String()
	if strings.Contains(text, "<script>alert") || strings.Contains(text, markup) {
		t.Error("markup gets through")
	}
	// Sets are recognized by their groups, and NotReady is not shown while ready.
	if shown := strings.Count(text, "&lt;script&gt;"); shown < poisoned*3/4 {
		t.Errorf("%d of %d texts are shown", shown, poisoned)
	}
}

// poison sets every text below a value, and reports how many there are.
func poison(v reflect.Value, text string) (count int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
		return 1
	case reflect.Pointer:
		return poison(v.Elem(), text)
	case reflect.Slice:
		for i := range v.Len() {
			count += poison(v.Index(i), text)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return 0
		}
		for i := range v.NumField() {
			count += poison(v.Field(i), text)
		}
	default:
	}
	return count
}

// TestNaturalOrder: numbers in the names of sets and groups are compared by their values, also where
// the first name of a set by the alphabet is not its first by number.
func TestNaturalOrder(t *testing.T) {
	status := state{Status: steering.Status{Mode: "Steering"}}
	for _, g := range [][2]string{{"ng-10", "ng-10"}, {"ng-2", "ng-10"}, {"ng-3", "ng-3"}, {"ng-03", "ng-3"}, {"pool", ""},
		{"ng-20-b", "ng-100-a"}, {"ng-100-a", "ng-100-a"}, {"ng", ""}} {
		status.Groups = append(status.Groups, steering.GroupStatus{Name: g[0], Set: g[1]})
	}
	text := ask(t, status, http.MethodGet, "/status", "").Body.String()
	last := 0
	for _, want := range []string{"Set ng-10:", "ng-2<", "ng-10<", "Set ng-3:", "ng-03<", "ng-3<", "Set ng-100-a:", "ng-20-b<", "ng-100-a<",
		"In no set", "ng<", "pool<"} {
		at := strings.Index(text[last:], want)
		if at < 0 {
			t.Fatalf("%q is not where it belongs in %s", want, text)
		}
		last += at + len(want)
	}
}

func ExampleNew() {
	server := httptest.NewServer(page.New(func() any {
		return page.Common{Server: "expander", Held: []page.Held{{What: "m-a", Why: "backed off"}}}
	}))
	defer server.Close()
	response, err := http.Get(server.URL + "?format=json")
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	var shown page.Common
	fmt.Println(json.NewDecoder(response.Body).Decode(&shown), shown.Server, shown.Held[0].Why)
	// Output: <nil> expander backed off
}
