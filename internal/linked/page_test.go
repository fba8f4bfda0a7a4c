package linked

import (
	"encoding/json"
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evenkeel/evenkeel/nodegroupset"
)

var updatePages = flag.Bool("update", false, "write the golden files")

// busyJournal remembers something of everything.
func busyJournal() *Journal {
	j, clock := newTestJournal()
	j.compared(comparison{
		Groups: 5, Changed: 2, Took: 1500 * time.Microsecond, Sets: [][]string{{"m-a", "m-b", "m-c"}, {"gpu"}, {"x"}},
		Failed: map[string]string{"y": "no template", "n": "no capacity"},
		Explain: func() (nodegroupset.Report, error) {
			return nodegroupset.Report{
				Sets: []nodegroupset.ReportSet{{Groups: []string{"m-a", "m-b", "m-c"}}, {Groups: []string{"x"}}},
				Misses: []nodegroupset.Miss{{
					Pair: nodegroupset.Pair{Left: "m-a", Right: "x", Differences: []nodegroupset.Difference{
						{Field: "labels[pool]", Left: new("<b>m</b>"), Limit: "equal"},
						{Field: "capacity.memory", Left: new("8Gi"), Right: new("9Gi"), Ratio: "0.11", Limit: "0.015"},
					}},
					Remedy: nodegroupset.Remedy{Flags: []string{"--balancing-ignore-label=pool", "--memory-difference-ratio=0.12"},
						Cautions: []string{"pods may move"}, Sets: 2, Joined: [][]string{{"m-a", "m-b", "m-c", "x"}}},
				}},
				MoreMisses: 3,
				Suggestion: nodegroupset.Remedy{Flags: []string{"--balancing-ignore-label=pool"}, Sets: 1},
			}, nil
		},
	})
	clock.SetTime(start.Add(time.Minute))
	j.split(splitDecision{Chosen: "gpu", Need: 1, Asked: 1, Groups: []splitMember{{Name: "gpu", NewSize: 1}}})
	clock.SetTime(start.Add(2 * time.Minute))
	j.split(splitDecision{
		Chosen: "m-b", Need: 9, Asked: 6, Unplaced: 1, Quotas: []string{"cores"},
		LeftOut: []problem{{"m-d", "the cloud is away <script>alert(1)</script>"}},
		Groups: membersOf([]nodegroupset.GroupSplit{{Name: "m-b", Size: 3, NewSize: 4, Reason: nodegroupset.ReasonQuota, Detail: "cores"},
			{Name: "m-a", Size: 1, NewSize: 5}, {Name: "m-c", Size: 4, NewSize: 4, Reason: nodegroupset.ReasonAtMax}}),
	})
	clock.SetTime(start.Add(3 * time.Minute))
	waits := nodeDecision{Node: "m-b-0001", Group: "m-b", Set: "m-a", Reason: reasonLevel, Behind: "m-a", Since: start.Add(150 * time.Second)}
	j.shrunk(shrinkDecision{
		Removed: []nodeDecision{{Node: "m-a-0002", Group: "m-a", Set: "m-a"}, {Node: "m-c-0001", Group: "m-c", Set: "m-a", Reason: reasonOverdue,
			Since: start}},
		Waiting: []nodeDecision{{Node: "gpu-0001", Group: "gpu", Reason: reasonLimit}, waits},
	})
	clock.SetTime(start.Add(4 * time.Minute))
	j.shrunk(shrinkDecision{Waiting: []nodeDecision{waits}})
	j.sized(sizeReading{Sizes: map[string]int{"m-a": 0, "m-b": 4}, Failed: map[string]string{"m-c": "away"}})
	clock.SetTime(start.Add(5 * time.Minute))
	return j
}

func askPage(t *testing.T, h http.Handler, method, target, accept string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), method, target, http.NoBody)
	request.Header.Set("Accept", accept)
	response := httptest.NewRecorder()
	h.ServeHTTP(response, request)
	return response
}

func TestPagesShowWhatWasDecided(t *testing.T) {
	starting, _ := newTestJournal()
	for name, j := range map[string]*Journal{"busy": busyJournal(), "starting": starting} {
		for _, format := range []string{"html", "json"} {
			got := askPage(t, j, http.MethodGet, "/evenkeel?format="+format, "").Body.String()
			golden := filepath.Join("testdata", name+"."+format)
			if *updatePages {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (-update writes it anew): %s", golden, diff)
			}
		}
	}
}

// Nothing that groups, clouds or labels are called reaches the page as markup.
func TestThePageIsEscaped(t *testing.T) {
	response := askPage(t, busyJournal(), http.MethodGet, "/evenkeel", "text/html")
	page := response.Body.String()
	for _, markup := range []string{"<script>alert", "<b>m</b>"} {
		if strings.Contains(page, markup) {
			t.Errorf("the page has %s", markup)
		}
	}
	if !strings.Contains(page, "&lt;script&gt;") {
		t.Error("the error of the cloud is not on the page")
	}
	if policy := response.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") {
		t.Errorf("policy %q", policy)
	}
}

func TestThePageAnswersInTheFormatAskedFor(t *testing.T) {
	j := busyJournal()
	for _, test := range []struct {
		method, target, accept string
		code                   int
		kind                   string
	}{
		{http.MethodGet, "/evenkeel", "", http.StatusOK, "text/html; charset=utf-8"},
		{http.MethodGet, "/evenkeel", "text/html,application/xhtml+xml,*/*;q=0.8", http.StatusOK, "text/html; charset=utf-8"},
		{http.MethodGet, "/evenkeel", "application/json", http.StatusOK, "application/json"},
		{http.MethodGet, "/evenkeel", "text/html;q=0.5, application/json;q=0.9, nonsense;;", http.StatusOK, "application/json"},
		{http.MethodGet, "/evenkeel?format=html", "application/json", http.StatusOK, "text/html; charset=utf-8"},
		{http.MethodHead, "/evenkeel", "", http.StatusOK, "text/html; charset=utf-8"},
		{http.MethodGet, "/evenkeel?format=yaml", "", http.StatusBadRequest, "text/plain; charset=utf-8"},
		{http.MethodPost, "/evenkeel", "", http.StatusMethodNotAllowed, "text/plain; charset=utf-8"},
	} {
		response := askPage(t, j, test.method, test.target, test.accept)
		if kind := response.Header().Get("Content-Type"); response.Code != test.code || kind != test.kind {
			t.Errorf("%s %s (%s): %d %s", test.method, test.target, test.accept, response.Code, kind)
		}
	}
}

// The groups are explained at most once per comparison, however often the page is asked, and an
// explanation that fails is reported.
func TestGroupsAreExplainedOnce(t *testing.T) {
	j := busyJournal()
	var asked atomic.Int32
	j.compared(comparison{Explain: func() (nodegroupset.Report, error) {
		asked.Add(1)
		return nodegroupset.Report{}, errors.New("out of paper")
	}})
	for range 3 {
		var s pageStatus
		response := askPage(t, j, http.MethodGet, "/evenkeel", "application/json")
		if err := json.Unmarshal(response.Body.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		if s.ReportError != "out of paper" || s.Report != nil {
			t.Errorf("report %v, %q", s.Report, s.ReportError)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("explained %d times", n)
	}
}
