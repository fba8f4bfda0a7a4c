package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/balancer"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/internal/grouppolicy"
	"github.com/evenkeel/evenkeel/internal/zonemarks"
)

// The documentation is README.md and the pages in docs. Its commands are run, its
// documents answered and its links followed, so what it shows is what the
// program does.

// TestDocumentedCommands runs every command of the program that a console block
// shows, in the root folder and by a shell, and compares what it prints. A line
// "..." stands for lines left out. -update writes what is printed.
func TestDocumentedCommands(t *testing.T) {
	inRoot(t)
	for _, name := range pages(t) {
		t.Run(name, func(t *testing.T) {
			p := readPage(t, name)
			changed := false
			for _, b := range slices.Backward(p.blocks("console")) {
				for _, s := range slices.Backward(b.steps(p)) {
					got, ran := runStep(t, s)
					want := p.lines[s.from:s.to]
					switch {
					case !ran || shows(want, got):
					case *update && !slices.Contains(want, ellipsis):
						p.lines = slices.Replace(p.lines, s.from, s.to, got...)
						changed = true
					default:
						t.Errorf("%s:%d: $ %s\nprints\n%s\nand is shown as\n%s", name, s.from, s.command,
							strings.Join(got, "\n"), strings.Join(want, "\n"))
					}
				}
			}
			if changed {
				p.write(t)
			}
		})
	}
}

// runStep runs one command of a console block. Those of other programs, such as
// git and kubectl, are passed over.
func runStep(t *testing.T, s step) (printed []string, ran bool) {
	if !strings.HasPrefix(s.command, "evenkeel ") && !strings.Contains(s.command, "| evenkeel ") {
		return nil, false
	}
	script := s.command // the program under test stands in the PATH
	if s.exitCode {
		script += "\necho $?"
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", script).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	printed = linesOf(string(out))
	if s.exitCode {
		code := printed[len(printed)-1]
		printed = append(printed[:len(printed)-1:len(printed)-1], echoExitCode, code)
	}
	return printed, true
}

// TestDocumentedDocuments answers, plays or checks every whole document that a
// page shows, and the examples and samples.
func TestDocumentedDocuments(t *testing.T) {
	inRoot(t)
	for _, name := range pages(t) {
		p := readPage(t, name)
		for _, b := range p.blocks("yaml") {
			text := strings.Join(p.lines[b.from:b.to], "\n")
			if strings.HasPrefix(text, "apiVersion: "+v1alpha1.APIVersion) {
				accept(t, fmt.Sprintf("%s:%d", name, b.from), text)
			}
		}
	}
	for _, folder := range []string{"configs/examples", "configs/samples"} {
		names, err := filepath.Glob(folder + "/*.yaml")
		if err != nil || len(names) == 0 {
			t.Fatal("no documents in", folder, err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			accept(t, name, string(text))
		}
	}
}

// accept fails the test unless the documents are sound: the program takes them,
// or they are marks of zones, members, or Balancers as the controller wants them, with other objects
// of a cluster beside them.
func accept(t *testing.T, where, text string) {
	if !strings.Contains(text, "apiVersion: "+v1alpha1.APIVersion) {
		return
	}
	if strings.Contains(text, "\nkind: "+v1alpha1.KindBalancer+"\n") {
		for document := range strings.SplitSeq(text, "\n---\n") {
			acceptBalancer(t, where, document)
		}
		return
	}
	if strings.Contains(text, "\nkind: "+v1alpha1.KindNodeGroupPolicies+"\n") {
		if _, _, err := grouppolicy.Parse(where, []byte(text)); err != nil {
			t.Error(err)
		}
		return
	}
	if strings.Contains(text, "\nkind: "+v1alpha1.KindZonalShift+"\n") {
		if _, _, err := zonemarks.Parse(where, []byte(text)); err != nil {
			t.Error(err)
		}
		return
	}
	if strings.Contains(text, "\nkind: "+v1alpha1.KindMemberCluster+"\n") {
		for document := range strings.SplitSeq(text, "\n---\n") {
			if err := yaml.UnmarshalStrict([]byte(document), &v1alpha1.MemberCluster{}); err != nil {
				t.Errorf("%s: %v", where, err)
			}
		}
		return
	}
	command := "plan"
	if strings.Contains(text, "kind: "+v1alpha1.KindFederatedReplicaSet+"\n") {
		command = "explain"
	}
	if strings.Contains(text, "\nkind: Scenario\n") || strings.Contains(text, "kind: "+v1alpha1.KindWorkloadSpread+"\n") {
		command = "simulate"
	}
	cmd := exec.CommandContext(t.Context(), "evenkeel", command, "-f", "-")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: evenkeel %s: %v\n%s", where, command, err, out)
	}
}

// acceptBalancer fails the test if the document is a Balancer, and has a field
// that there is not or makes no sense.
func acceptBalancer(t *testing.T, where, document string) {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
		t.Errorf("%s: %v", where, err)
	}
	if kind.Kind != v1alpha1.KindBalancer {
		return
	}
	var b v1alpha1.Balancer
	if err := yaml.UnmarshalStrict([]byte(document), &b); err != nil {
		t.Errorf("%s: %v", where, err)
	}
	if errs := balancer.Validate("default/"+b.Name, &b.Spec); len(errs) > 0 {
		t.Errorf("%s: %v", where, errs.ToAggregate())
	}
}

// TestDocumentedFields: the reference pages name every field of their documents.
func TestDocumentedFields(t *testing.T) {
	inRoot(t)
	for page, types := range map[string][]reflect.Type{
		"docs/plan.md": {
			reflect.TypeFor[v1alpha1.NodeGroupSplitSpec](), reflect.TypeFor[v1alpha1.NodeGroupSplitStatus](),
			reflect.TypeFor[v1alpha1.NodeGroupSimilaritySpec](), reflect.TypeFor[v1alpha1.NodeGroupSimilarityStatus](),
			reflect.TypeFor[v1alpha1.ReplicaDistributionSpec](), reflect.TypeFor[v1alpha1.ReplicaDistributionStatus](),
			reflect.TypeFor[v1alpha1.SpreadSplitSpec](), reflect.TypeFor[v1alpha1.SpreadSplitStatus](),
			reflect.TypeFor[v1alpha1.TopologySpreadSpec](), reflect.TypeFor[v1alpha1.TopologySpreadStatus](),
		},
		"docs/policies.md":       {reflect.TypeFor[v1alpha1.NodeGroupPoliciesSpec]()},
		"docs/zonal-shift.md":    {reflect.TypeFor[v1alpha1.ZonalShiftSpec]()},
		"docs/scenario.md":       {reflect.TypeFor[v1alpha1.ScenarioSpec]()},
		"docs/federation.md":     {reflect.TypeFor[v1alpha1.FederatedReplicaSetSpec](), reflect.TypeFor[v1alpha1.FederatedReplicaSetStatus]()},
		"docs/workloadspread.md": {reflect.TypeFor[v1alpha1.WorkloadSpreadSpec](), reflect.TypeFor[v1alpha1.WorkloadSpreadStatus]()},
		"docs/balancer.md":       {reflect.TypeFor[v1alpha1.BalancerSpec](), reflect.TypeFor[v1alpha1.BalancerStatus]()},
	} {
		text := strings.Join(readPage(t, page).lines, "\n")
		for _, typ := range types {
			for name := range fieldsOf(typ, map[string]bool{}) {
				if !regexp.MustCompile("`([a-zA-Z]*\\[?]?\\.)*" + name + "[^`a-zA-Z]*[^`]*`").MatchString(text) {
					t.Errorf("%s does not name the field %s", page, name)
				}
			}
		}
	}
}

// fieldsOf collects the names of the fields of a type of the documents and of
// all such types it is made of.
func fieldsOf(typ reflect.Type, names map[string]bool) map[string]bool {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map {
		typ = typ.Elem()
	}
	if typ == reflect.TypeFor[v1alpha1.WorkloadSpread]() {
		return names // docs/workloadspread.md has them
	}
	if typ.Kind() != reflect.Struct || typ.PkgPath() != reflect.TypeFor[v1alpha1.Scenario]().PkgPath() {
		return names
	}
	for f := range typ.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names[name] = true
		}
		fieldsOf(f.Type, names)
	}
	return names
}

// TestDocumentedExpanders: docs/expander.md has the table that the strategies
// make of themselves. -update writes it.
func TestDocumentedExpanders(t *testing.T) {
	inRoot(t)
	p := readPage(t, "docs/expander.md")
	want := []string{"| Expander | Keeps | In detail |", "|---|---|---|"}
	for _, d := range expander.Strategies() {
		want = append(want, fmt.Sprintf("| %#q | %s | %s |", d.Name, d.Help, d.Doc))
	}
	from := slices.Index(p.lines, want[0])
	if from < 0 {
		t.Fatalf("no table %q", want[0])
	}
	to := from
	for to < len(p.lines) && strings.HasPrefix(p.lines[to], "|") {
		to++
	}
	if slices.Equal(p.lines[from:to], want) {
		return
	}
	if !*update {
		t.Fatal("the table of strategies is stale: run go test ./cmd/evenkeel -run Documented -update")
	}
	p.lines = slices.Replace(p.lines, from, to, want...)
	p.write(t)
}

// TestDocumentedLinks: links within the repository lead somewhere, on every page of it.
func TestDocumentedLinks(t *testing.T) {
	inRoot(t)
	var names []string
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "testdata"):
			return fs.SkipDir
		case filepath.Ext(name) == ".md":
			names = append(names, name)
		}
		return nil
	})
	if err != nil || len(names) < 20 {
		t.Fatal(names, err)
	}
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, name := range names {
		for _, found := range link.FindAllStringSubmatch(readPage(t, name).prose(), -1) {
			target, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			path := name
			if target != "" {
				path = filepath.Join(filepath.Dir(name), target)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if anchor != "" && !slices.Contains(readPage(t, path).anchors(), anchor) {
				t.Errorf("%s: %s has no heading #%s", name, path, anchor)
			}
		}
	}
}

func inRoot(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the documentation is written for a Unix shell")
	}
	t.Chdir("../..")
}

func pages(t *testing.T) []string {
	var names []string
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatal("no pages", pattern, err)
		}
		names = append(names, found...)
	}
	if _, err := os.Stat("README.md"); err == nil {
		names = append(names, "README.md")
	}
	return names
}
