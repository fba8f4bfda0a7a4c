package htmlreport_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/simulate/htmlreport"
)

func after(minutes int) metav1.Duration {
	return metav1.Duration{Duration: time.Duration(minutes) * time.Minute}
}

// fleet is a report of so many groups, three to a set, and so many events of which
// each is a scale-up of a set, its nodes coming and its pods being bound.
func fleet(groups, events int) *v1alpha1.ScenarioReport {
	r := &v1alpha1.ScenarioReport{ObjectMeta: metav1.ObjectMeta{Name: "fleet"}}
	s := &r.Status
	s.End, s.Cost = after(events+1), &v1alpha1.Cost{Total: "12.5", PerHour: "3", HighestPerHour: "3"}
	for i := range groups {
		s.Groups = append(s.Groups, v1alpha1.GroupReport{
			Name: fmt.Sprintf("pool-%04d-eu-west-1%c", i/3, 'a'+i%3), Zone: fmt.Sprintf("eu-west-1%c", 'a'+i%3), Max: 100, Set: i/3 + 1,
			Why: "similar to another one, levelled with it", Sizes: []v1alpha1.GroupSize{{}},
		})
		if i%3 == 0 {
			s.Sets = append(s.Sets, nil)
		}
		s.Sets[i/3] = append(s.Sets[i/3], s.Groups[i].Name)
	}
	for e := range events {
		at := after(e)
		row := v1alpha1.TimelineRow{At: at, What: v1alpha1.RowScaleUp, Text: "groups grew, levelled over their zones (9 nodes for 27 pods)",
			Nodes: 9, Pods: 27}
		row.ScaleUp = &v1alpha1.ScaleUpReport{Asked: 9, Needed: 9,
			Expander: []v1alpha1.ExpanderStep{{Strategy: "least-waste", Options: 300, Kept: 1,
				Figure: "12.50 % wasted (cpu 12.50 %, memory 12.50 %)"}}}
		set := e * 7 % len(s.Sets)
		for i := set * 3; i < min(set*3+3, groups); i++ {
			g := &s.Groups[i]
			from, to := g.After, g.After+1
			g.After, g.Ordered = to, g.Ordered+1
			g.Sizes = append(g.Sizes, v1alpha1.GroupSize{At: at, Target: to, Ready: from},
				v1alpha1.GroupSize{At: after(e + 1), Target: to, Ready: to})
			row.Groups = append(row.Groups, v1alpha1.GroupChange{Name: g.Name, Nodes: 1, From: &from, To: &to, Reason: g.Why})
			row.ScaleUp.Chosen = g.Name
		}
		s.Timeline = append(s.Timeline, row, v1alpha1.TimelineRow{At: at, What: v1alpha1.RowNodesReady, Text: "9 nodes ready"},
			v1alpha1.TimelineRow{At: at, What: v1alpha1.RowBound, Text: "27 pods bound, 0 pending"})
		s.History = append(s.History, v1alpha1.HistoryRow{At: at, Pending: e % 40, Running: e, Nodes: e, Unevenness: e % 3, CostPerHour: "3"})
	}
	s.Faults = []v1alpha1.FaultReport{{Kind: v1alpha1.FaultOutage, Mode: v1alpha1.OutageUnready, Zones: []string{"eu-west-1a"},
		FaultWindow: v1alpha1.FaultWindow{From: after(events / 3)}}}
	return r
}

func pageOf(t testing.TB, results ...htmlreport.Result) string {
	t.Helper()
	var out bytes.Buffer
	if err := htmlreport.Write(&out, results); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// compared is a comparison of two reports, as far as the page looks at it.
func compared(a, b *v1alpha1.ScenarioReport) *v1alpha1.ScenarioComparison {
	return &v1alpha1.ScenarioComparison{ObjectMeta: a.ObjectMeta, Status: v1alpha1.ScenarioComparisonStatus{
		Options: []v1alpha1.ChangedOption{{Name: "expander", Changed: []byte(`"price"`)}},
		Figures: []v1alpha1.ComparedFigure{{Name: "nodesOrdered", Baseline: "4", Changed: "6", Difference: "2"},
			{Name: "costTotal", Baseline: "4", Changed: "3.5", Difference: "-0.5"}},
		Baseline: a.Status, Changed: b.Status,
	}}
}

// TestLargePageIsSmall: a page of 1,000 groups and 1,000 events stays below 5 MB,
// and so does one that compares two of them.
func TestLargePageIsSmall(t *testing.T) {
	const limit = 5 << 20
	large := fleet(1000, 1000)
	for name, result := range map[string]htmlreport.Result{"report": {Report: large}, "comparison": {Comparison: compared(large, large)}} {
		if size := len(pageOf(t, result)); size > limit {
			t.Errorf("%s: %d bytes, at most %d", name, size, limit)
		} else {
			t.Logf("%s: %d bytes", name, size)
		}
	}
}

// TestPageIsSelfContained: nothing is loaded and nothing runs.
func TestPageIsSelfContained(t *testing.T) {
	page := pageOf(t, htmlreport.Result{Report: fleet(9, 20)})
	for _, banned := range []string{"<script", "http:", "https:", "@import", "//"} {
		text := strings.ReplaceAll(page, "http-equiv", "")
		if at := strings.Index(text, banned); at >= 0 {
			t.Errorf("has %q: …%s…", banned, text[max(0, at-60):min(len(text), at+60)])
		}
	}
	for _, reference := range regexp.MustCompile(`url\(([^)]*)\)`).FindAllStringSubmatch(page, -1) {
		if id, inside := strings.CutPrefix(reference[1], "#"); !inside || !strings.Contains(page, `<pattern id="`+id+`"`) {
			t.Errorf("refers to %s", reference[0])
		}
	}
	for _, variable := range regexp.MustCompile(`var\((--[a-z0-9]+)\)`).FindAllStringSubmatch(page, -1) {
		if !strings.Contains(page, variable[1]+":") {
			t.Errorf("%s is not defined", variable[1])
		}
	}
	if strings.Contains(page, "#0000") {
		t.Error("a colour of the drawing was not replaced")
	}
}

// TestPageIsAccessible walks the document: ids are unique and what refers to them
// finds them; every picture has a title, a description and a table; headings do not
// skip a level; tables have headers and what scrolls can be reached by keyboard.
func TestPageIsAccessible(t *testing.T) {
	small := fleet(9, 20)
	page := pageOf(t, htmlreport.Result{Report: small}, htmlreport.Result{Comparison: compared(small, small)})
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	ids, pictures, level := map[string]bool{}, 0, 0
	for n := range root.Descendants() {
		if id := attribute(n, "id"); id != "" {
			if ids[id] {
				t.Errorf("id %s stands there twice", id)
			}
			ids[id] = true
		}
	}
	for n := range root.Descendants() {
		for _, id := range strings.Fields(attribute(n, "aria-labelledby") + " " + strings.TrimPrefix(attribute(n, "href"), "data:,")) {
			if !ids[strings.TrimPrefix(id, "#")] {
				t.Errorf("<%s> refers to %s, which is not there", n.Data, id)
			}
		}
		switch {
		case strings.HasPrefix(attribute(n, "class"), "chart"):
			pictures++
			if attribute(n, "role") != "img" || len(children(n, "title")) != 1 || len(children(n, "desc")) != 1 ||
				len(children(n.Parent.Parent, "details")) != 1 {
				t.Errorf("picture %s lacks a role, a title, a description or a table", attribute(n, "aria-labelledby"))
			}
		case n.Data == "svg" && attribute(n, "aria-hidden") != "true":
			t.Error("a drawing is neither a picture nor hidden")
		case n.Data == "table" && len(children(n, "thead")) != 1:
			t.Error("a table has no header")
		case slices.Contains([]string{"scroll", "drawn"}, attribute(n, "class")) &&
			(attribute(n, "tabindex") != "0" || attribute(n, "aria-label")+attribute(n, "aria-labelledby") == ""):
			t.Error("what scrolls cannot be reached or has no name")
		case len(n.Data) == 2 && n.Data[0] == 'h' && n.Data[1] >= '1' && n.Data[1] <= '6':
			if next := int(n.Data[1] - '0'); next > level+1 && level > 0 {
				t.Errorf("heading %d follows %d", next, level)
			} else {
				level = next
			}
		}
	}
	if want := 3 * (4 + 3); pictures != want {
		t.Errorf("%d pictures, want %d", pictures, want)
	}
}

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func children(n *html.Node, name string) []*html.Node {
	var all []*html.Node
	for c := range n.ChildNodes() {
		if c.Data == name {
			all = append(all, c)
		}
	}
	return all
}

// TestContrast computes the contrast of texts and edges with what they stand on, by
// WCAG 2: 4.5 for text, 3 for what is drawn, in both themes and on paper.
func TestContrast(t *testing.T) {
	page := pageOf(t, htmlreport.Result{Report: fleet(3, 1)})
	blocks := regexp.MustCompile(`:root \{([^}]*)\}`).FindAllStringSubmatch(page, -1)
	if len(blocks) != 3 {
		t.Fatalf("%d themes, want 3", len(blocks))
	}
	for i, block := range blocks {
		colors := map[string]string{}
		for _, c := range regexp.MustCompile(`--([a-z0-9]+): #([0-9a-f]{3,6})\b`).FindAllStringSubmatch(block[1], -1) {
			colors[c[1]] = c[2]
		}
		for _, ground := range []string{"paper", "card"} {
			for name, least := range map[string]float64{"ink": 4.5, "dim": 4.5, "accent": 4.5, "good": 4.5, "bad": 4.5, "edge": 3, "line": 3,
				"fault": 3} {
				if got := contrast(colors[name], colors[ground]); got < least {
					t.Errorf("theme %d: %s on %s has a contrast of %.2f, at least %.1f", i, name, ground, got, least)
				}
			}
		}
	}
}

// TestAnythingIsEscaped puts text into every field: the page has as many elements
// as with plain text, and its pictures are well-formed.
func TestAnythingIsEscaped(t *testing.T) {
	elements := func(text string) map[string]int {
		page := pageOf(t, htmlreport.Result{Report: named(text)}, htmlreport.Result{Comparison: compared(named(text), named(text))})
		root, err := html.Parse(strings.NewReader(page))
		if err != nil {
			t.Fatal(err)
		}
		count := map[string]int{}
		for n := range root.Descendants() {
			if n.Type == html.ElementNode {
				count[n.Data]++
			}
		}
		for _, drawn := range regexp.MustCompile(`(?s)</desc>\s*(<g .*?)</svg>`).FindAllStringSubmatch(page, -1) {
			for d := xml.NewDecoder(strings.NewReader(drawn[1])); ; {
				if _, err := d.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("picture: %v", err)
				}
			}
		}
		return count
	}
	plain := elements("plain")
	for _, text := range []string{`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `</svg></style><b>`, `' style="fill:#000001`,
		"{{.}} & ]]>", "zone #000001 $x^2$", "a\nb\tc", "🚢ΩЖ", strings.Repeat("long", 3000)} {
		if got := elements(text); fmt.Sprint(got) != fmt.Sprint(plain) {
			t.Errorf("%.40q: elements %v, want %v", text, got, plain)
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.StringN(1, 12, -1).Draw(r, "text")
		if got := elements(text); fmt.Sprint(got) != fmt.Sprint(plain) {
			r.Fatalf("%q: elements %v, want %v", text, got, plain)
		}
	})
}

// named has the text wherever a scenario's author, or a cloud, has a say.
func named(text string) *v1alpha1.ScenarioReport {
	r := fleet(6, 2)
	r.Name = text
	s := &r.Status
	for i := range s.Groups {
		g := &s.Groups[i]
		s.Sets[i/3][i%3], g.Name = g.Name+text, g.Name+text
		g.Zone, g.Why = g.Zone+text, text
	}
	for i := range s.Timeline {
		row := &s.Timeline[i]
		row.Text = text
		for j := range row.Groups {
			row.Groups[j].Name, row.Groups[j].Reason = text, text
		}
	}
	s.PendingPods = []v1alpha1.PendingReport{{Example: text, Pods: 1, Reason: text}}
	s.Expectations = []v1alpha1.Expectation{{Check: text, Want: text, Got: text}}
	s.Faults[0].Zones, s.Faults[0].Error = []string{text}, text
	return r
}

// TestDegenerateReports: no groups, no time, no history, everything at once.
func TestDegenerateReports(t *testing.T) {
	many := fleet(60, 5)
	for i := range many.Status.Groups {
		many.Status.Groups[i].Zone = fmt.Sprintf("zone-%02d", i)
	}
	early := fleet(3, 3)
	early.Status.Faults = slices.Repeat([]v1alpha1.FaultReport{{Kind: v1alpha1.FaultCall, Methods: []string{"IncreaseSize"}},
		{Kind: v1alpha1.FaultStockOut, FaultWindow: v1alpha1.FaultWindow{From: after(600)}}}, 9)
	for name, r := range map[string]*v1alpha1.ScenarioReport{"empty": {}, "many zones": many, "many faults": early} {
		page := pageOf(t, htmlreport.Result{Report: r})
		if again := pageOf(t, htmlreport.Result{Report: r}); again != page {
			t.Errorf("%s: a second page differs", name)
		}
		if strings.Contains(page, "NaN") || strings.Contains(page, "Inf") {
			t.Errorf("%s: has numbers that are none", name)
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		report := fleet(n, n)
		b.Run(fmt.Sprintf("groups=%d,events=%d", n, n), func(b *testing.B) {
			b.ReportAllocs()
			size := 0
			for b.Loop() {
				size = len(pageOf(b, htmlreport.Result{Report: report}))
			}
			b.ReportMetric(float64(size), "bytes/page")
		})
	}
}

// TestAComparisonOfSeveralRuns has a column and a curve for each, named after the value of the option.
func TestAComparisonOfSeveralRuns(t *testing.T) {
	small := fleet(3, 9)
	c := compared(small, small)
	c.Status.Options = []v1alpha1.ChangedOption{{
		Name: "autoscaler", Baseline: json.RawMessage(`"stock"`), Changed: json.RawMessage(`"linked"`),
		Further: []json.RawMessage{json.RawMessage(`"sidecar"`)},
	}}
	c.Status.Further = []v1alpha1.ScenarioReportStatus{small.Status}
	c.Status.Figures = []v1alpha1.ComparedFigure{{Name: "nodesOrdered", Baseline: "31", Changed: "15", Difference: "-16",
		Further: []json.Number{"21"}}}
	page := pageOf(t, htmlreport.Result{Comparison: c})
	for _, want := range []string{
		`<th scope="col" class="n">stock</th><th scope="col" class="n">linked</th><th scope="col" class="n">sidecar</th>`,
		`<td class="n">31</td><td class="n">15</td><td class="n">21</td>`, `<small>sidecar</small>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	if strings.Contains(page, "What was changed") {
		t.Error("the page has a table of options with two columns")
	}
}

// TestSizeBeforeTheFirstScaleUp: a chart describes the size before the run, also where a group grows in its first instant.
func TestSizeBeforeTheFirstScaleUp(t *testing.T) {
	r := &v1alpha1.ScenarioReport{}
	r.Status.End.Duration = time.Minute
	r.Status.Groups = []v1alpha1.GroupReport{{Name: "a", Before: 2, After: 5,
		Sizes: []v1alpha1.GroupSize{{Target: 2, Ready: 2}, {Target: 5, Ready: 2}}}}
	page := pageOf(t, htmlreport.Result{Report: r})
	if want := "From 2 nodes at the start to 5 at the end, at most 5 after 0."; !strings.Contains(page, want) {
		t.Errorf("does not say %q", want)
	}
}

// TestGroupsHaveTheNumbersOfTheirSets: the table of groups numbers sets from 1, as the report does.
func TestGroupsHaveTheNumbersOfTheirSets(t *testing.T) {
	page := pageOf(t, htmlreport.Result{Report: fleet(6, 1)})
	for group, set := range map[string]string{"pool-0000-eu-west-1a": "1", "pool-0001-eu-west-1c": "2"} {
		row := regexp.MustCompile(`<tr><t[hd][^>]*>` + group + `</t[hd]>\s*<td[^>]*>[^<]*</td>\s*<td[^>]*>([^<]*)</td>`).FindStringSubmatch(page)
		if row == nil || row[1] != set {
			t.Errorf("%s: the row is %q, want set %s", group, row, set)
		}
	}
}
