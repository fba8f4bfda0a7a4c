package evenkeel_test

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/evenkeel/evenkeel"

// The layers, top down. A package may import every package of a lower layer.
const (
	entry = iota
	drivers
	edges
	pipeline
	decisions
	arithmetic
	contracts
	data
)

var layerNames = []string{"entry", "drivers", "edges", "pipeline", "decisions", "arithmetic", "contracts", "data"}

// A row says what one package may import. Its test files are free: they may bring in an oracle or a
// fake.
type row struct {
	layer  int
	path   string   // inside the module; the row covers the internal packages below it too
	peers  []string // packages of the same layer that it may import
	only   []string // where not nil: the only packages of the module that it may import
	banned []string // imports it must not have, nor any package below them
	stdlib bool     // imports the standard library only
}

// What a layer stays free of.
var (
	none     = []string{}
	logging  = []string{"log"}
	outside  = append([]string{"os", "net", "syscall"}, logging...)
	clock    = append([]string{"time", "k8s.io/utils/clock"}, outside...)
	impurity = append([]string{"math/rand", "context", "unsafe"}, clock...)
)

// table has a row for every package of the module.
var table = []row{
	{layer: entry, path: "cmd/evenkeel"},

	{layer: drivers, path: "balancer/reconcile"},
	{layer: drivers, path: "workloadspread/reconcile"},
	{layer: drivers, path: "deletioncost/reconcile", only: []string{"deletioncost", "internal/controller/passes",
		"internal/controller/podcache", "internal/metricset"}},
	{layer: drivers, path: "federation/reconcile", peers: []string{"federation/members"}},
	{layer: drivers, path: "federation/members", only: []string{"api/v1alpha1", "federation", "internal/controller/passes",
		"internal/controller/podcache", "internal/metricset", "nodegroupset/template", "podfit", "podhealth"}},
	{layer: drivers, path: "federation/join", only: []string{"api/v1alpha1", "federation/members"}, peers: []string{"federation/members"},
		banned: logging},
	{layer: drivers, path: "internal/doctor", only: []string{"api/v1alpha1", "cloudprovider", "internal/autoscalerstatus", "internal/document",
		"internal/explain", "internal/spelling", "nodegroupset", "nodegroupset/template"}, peers: []string{"internal/explain"},
		banned: append([]string{"k8s.io/client-go", "k8s.io/utils/clock"}, outside...)},
	{layer: drivers, path: "internal/explain", banned: logging},
	{layer: drivers, path: "internal/pending", peers: []string{"internal/autoscaler", "internal/explain"}, banned: logging},
	{layer: drivers, path: "internal/placement", only: []string{"api/v1alpha1", "apportion", "federation", "internal/document", "podhealth",
		"replica", "internal/spelling"}, banned: append([]string{"k8s.io/client-go"}, logging...)},
	{layer: drivers, path: "internal/subsets", only: []string{"api/v1alpha1", "internal/document", "internal/provisioning", "workloadspread",
		"internal/spelling"}, banned: append([]string{"k8s.io/client-go"}, logging...)},
	{layer: drivers, path: "internal/fakecloud"},
	{layer: drivers, path: "internal/autoscaler", peers: []string{"internal/linked"}, banned: logging},
	{layer: drivers, path: "internal/linked", banned: logging},
	{layer: drivers, path: "internal/plan", banned: logging},
	{layer: drivers, path: "sidecar", banned: outside},
	{layer: drivers, path: "sidecar/cluster", peers: []string{"sidecar"}},
	{layer: drivers, path: "internal/simulate", peers: []string{"internal/autoscaler", "sidecar"}, banned: logging},
	{layer: drivers, path: "workloadspread/schedule", only: []string{"cloudprovider", "internal/controller/passes", "internal/metricset",
		"internal/provisioning", "nodegroupset", "nodegroupset/template", "predicates", "workloadspread"},
		banned: append([]string{"os"}, logging...)},
	{layer: drivers, path: "workloadspread/admission", only: []string{"api/v1alpha1", "internal/controller/owners",
		"internal/controller/passes", "internal/metricset", "workloadspread", "workloadspread/store", "workloadspread/workloads"},
		banned: logging},

	{layer: edges, path: "cloudprovider/externalgrpc", only: []string{"cloudprovider", "cloudprovider/externalgrpc/externalgrpcpb"},
		banned: outside},
	{layer: edges, path: "cloudprovider/externalgrpc/wirerules", only: []string{"cloudprovider", "cloudprovider/conformance",
		"cloudprovider/externalgrpc/externalgrpcpb", "internal/spelling"}, banned: outside},
	{layer: edges, path: "internal/controller", only: []string{"internal/metricset"}, peers: []string{"internal/metricset"}},
	{layer: edges, path: "internal/controller/owners", only: none, banned: logging},
	{layer: edges, path: "internal/controller/passes", only: none, banned: logging},
	{layer: edges, path: "internal/controller/podcache", only: none, banned: logging},
	{layer: edges, path: "internal/controller/scale", only: []string{"api/v1alpha1", "internal/controller/passes"},
		peers: []string{"internal/controller/passes"}},
	{layer: edges, path: "internal/document", only: []string{"internal/admission", "api/v1alpha1", "internal/spelling"}, banned: logging},
	{layer: edges, path: "internal/document/live", only: []string{"internal/document"}, peers: []string{"internal/document"},
		banned: append([]string{"os"}, logging...)},
	{layer: edges, path: "internal/followed", only: []string{}, banned: logging},
	{layer: edges, path: "internal/grouppolicy", only: []string{"internal/admission", "internal/document", "internal/followed", "api/v1alpha1",
		"apportion", "nodegroupset"}, peers: []string{"internal/document", "internal/followed"}, banned: logging},
	{layer: edges, path: "expander/grpcexpander", only: []string{"expander", "expander/grpcexpander/grpcexpanderpb"}, banned: outside},
	{layer: edges, path: "internal/autoscalerstatus", only: none, banned: append([]string{"context", "k8s.io/client-go", "k8s.io/utils/clock"},
		outside...)},
	{layer: edges, path: "internal/provisioning", only: []string{"internal/autoscalerstatus", "workloadspread"},
		peers: []string{"internal/autoscalerstatus"}, banned: append([]string{"context", "k8s.io/client-go", "k8s.io/utils/clock"}, outside...)},
	{layer: edges, path: "internal/provisioning/conditions", only: []string{"internal/provisioning"}, peers: []string{"internal/provisioning"},
		banned: append([]string{"os"}, logging...)},
	{layer: edges, path: "internal/provisioning/live", only: []string{"internal/provisioning", "workloadspread"},
		peers: []string{"internal/provisioning"}, banned: append([]string{"os"}, logging...)},
	{layer: edges, path: "fake", only: []string{"api/v1alpha1", "cloudprovider", "internal/admission"}, banned: outside},
	{layer: edges, path: "internal/loopback", only: []string{"internal/serving"}, peers: []string{"internal/serving"}, banned: logging},
	{layer: edges, path: "internal/metricset", only: none, banned: outside},
	{layer: edges, path: "internal/page", only: none, banned: logging},
	{layer: edges, path: "internal/simulate/htmlreport", only: []string{"api/v1alpha1", "internal/spelling"}, banned: outside},
	{layer: edges, path: "workloadspread/workloads", only: []string{"api/v1alpha1", "internal/controller/owners", "workloadspread"},
		peers: []string{"internal/controller/owners"}, banned: logging},
	{layer: edges, path: "workloadspread/store", only: []string{"api/v1alpha1", "internal/controller/passes", "internal/metricset"},
		peers: []string{"internal/controller/passes", "internal/metricset"}, banned: logging},
	{layer: edges, path: "internal/zonemarks", only: []string{"api/v1alpha1", "internal/document", "internal/followed", "zonalshift"},
		peers: []string{"internal/document", "internal/followed"}, banned: logging},
	{layer: edges, path: "internal/serving", only: []string{"internal/metricset"}, peers: []string{"internal/metricset"}, banned: logging},
	{layer: edges, path: "internal/serving/access", only: none, banned: logging},
	{layer: edges, path: "internal/webhooks", only: []string{"internal/metricset", "internal/serving"},
		peers: []string{"internal/metricset", "internal/serving"}, banned: logging},
	{layer: edges, path: "internal/serving/recording", only: none, banned: logging},

	{layer: pipeline, path: "balancer", only: []string{"api/v1alpha1", "apportion", "internal/admission", "internal/spelling", "podhealth",
		"replica"}, banned: append([]string{"k8s.io/utils/clock"}, outside...)},
	{layer: pipeline, path: "deletioncost", only: []string{"topologyspread", "internal/spelling"}, banned: clock},
	{layer: pipeline, path: "federation", only: []string{"api/v1alpha1", "apportion", "internal/admission", "internal/spelling", "podfit",
		"podhealth", "replica"}, banned: append([]string{"k8s.io/utils/clock"}, outside...)},
	{layer: pipeline, path: "workloadspread", only: []string{"api/v1alpha1", "apportion", "internal/admission", "podfit", "podhealth"},
		banned: append([]string{"k8s.io/utils/clock"}, outside...)},
	{layer: pipeline, path: "internal/autoscaler/removal", banned: outside},
	{layer: pipeline, path: "steering", banned: append([]string{"context", "sync", "math/rand", "k8s.io/utils/clock",
		"github.com/go-logr/logr"}, outside...)},

	{layer: decisions, path: "backoff", only: none, banned: append([]string{"k8s.io/utils/clock"}, outside...), stdlib: true},
	{layer: decisions, path: "internal/admission", only: []string{"internal/spelling"}, banned: clock},
	{layer: decisions, path: "deferral", only: none, banned: append([]string{"k8s.io/utils/clock"}, outside...), stdlib: true},
	{layer: decisions, path: "estimator", peers: []string{"podfit", "predicates"}, banned: clock},
	{layer: decisions, path: "expander", only: []string{"cloudprovider", "internal/spelling", "podfit"}, peers: []string{"podfit"},
		banned: clock},
	{layer: decisions, path: "nodegroupset", banned: append([]string{"k8s.io/utils/clock"}, outside...)},
	{layer: decisions, path: "podfit", only: none, banned: append([]string{"k8s.io/client-go", "k8s.io/kube-scheduler"}, clock...)},
	{layer: decisions, path: "podhealth", only: none, banned: append([]string{"k8s.io/utils/clock"}, outside...)},
	{layer: decisions, path: "replica", only: []string{"api/v1alpha1", "apportion", "internal/spelling", "podhealth"},
		peers: []string{"podhealth"}, banned: append([]string{"k8s.io/utils/clock"}, outside...)},
	{layer: decisions, path: "nodegroupset/template", only: []string{"cloudprovider", "nodegroupset", "podfit"},
		peers: []string{"nodegroupset", "podfit"}, banned: clock},
	{layer: decisions, path: "predicates", peers: []string{"podfit", "topologyspread"}, banned: clock},
	{layer: decisions, path: "spreadplan", only: []string{"apportion", "nodegroupset", "podfit", "topologyspread"},
		peers: []string{"nodegroupset", "podfit", "topologyspread"}, banned: clock},
	{layer: decisions, path: "topologyspread", only: []string{"apportion", "internal/spelling", "podfit"}, peers: []string{"podfit"},
		banned: append([]string{"k8s.io/client-go", "k8s.io/kube-scheduler"}, clock...)},
	{layer: decisions, path: "zonalshift", only: []string{"api/v1alpha1", "apportion", "internal/spelling"},
		banned: append([]string{"k8s.io/utils/clock"}, outside...)},

	{layer: arithmetic, path: "apportion", only: none, banned: impurity, stdlib: true},
	{layer: arithmetic, path: "internal/spelling", only: none, banned: impurity, stdlib: true},

	{layer: contracts, path: "api/v1alpha1", banned: outside},
	{layer: contracts, path: "cloudprovider", banned: outside},
	{layer: contracts, path: "cloudprovider/externalgrpc/externalgrpcpb", only: none, banned: outside},
	{layer: contracts, path: "expander/grpcexpander/grpcexpanderpb", only: none, banned: outside},
	{layer: contracts, path: "cloudprovider/conformance", peers: []string{"cloudprovider"}, banned: append([]string{"testing"}, outside...)},
	{layer: contracts, path: "cloudprovider/conformance/conformancetest", peers: []string{"cloudprovider/conformance"}, banned: outside},

	{layer: data, path: ".", only: none, banned: clock, stdlib: true},
	{layer: data, path: "configs/labelpacks", only: none, banned: clock, stdlib: true},
	{layer: data, path: "configs/scenarios", only: none, banned: clock, stdlib: true},
}

// reserved libraries belong to one package, so that their weight and their ways stay there.
var reserved = map[string]string{
	"k8s.io/kubernetes":      "predicates",
	"github.com/spf13/cobra": "cmd/evenkeel",
	"golang.org/x/term":      "cmd/evenkeel",
	"gonum.org/v1/plot":      "internal/simulate/htmlreport",
}

// unreached libraries are linked neither by these packages nor by those below them, however deep: a
// program that imports them may have another version of the library. Cluster Autoscaler registers its
// protocols itself, and a second copy of one ends the program at its start.
var unreached = map[string][]string{
	"k8s.io/kubernetes": {"balancer", "deletioncost", "federation", "federation/members", "internal/explain", "internal/linked",
		"internal/provisioning", "sidecar", "spreadplan", "steering", "workloadspread"},

	module + "/cloudprovider/externalgrpc/externalgrpcpb": {"internal/linked", "internal/simulate"},
	module + "/expander/grpcexpander/grpcexpanderpb":      {"internal/linked", "internal/simulate"},
}

// reaching are packages below those that link such a library all the same; none of these imports them.
var reaching = []string{"workloadspread/schedule"}

// The packages that are linked into a Cluster Autoscaler, which has a scheduler of its own. They
// are of another module.
var linked = []string{"integrations/clusterautoscaler"}

// withoutExample lists packages whose exported functions run only inside a test, where an Example
// cannot show them.
var withoutExample = []string{"cloudprovider/conformance/conformancetest"}

// A source is what the rules look at in one package.
type source struct {
	path      string   // inside the module
	name      string   // of the package clause
	doc       string   // package comment
	imports   []string // of the files that are not tests, sorted
	functions bool     // exports functions
	example   bool     // has an Example with checked output
	lines     int      // of the files that are neither tests nor generated
}

func TestLayering(t *testing.T) {
	packages, err := load(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packages {
		for _, v := range violations(p) {
			t.Error(v)
		}
	}
}

func TestWhatIsNotReached(t *testing.T) {
	packages, err := load(".")
	if err != nil {
		t.Fatal(err)
	}
	tree := treeOf(packages)
	for library, of := range unreached {
		for _, p := range packages {
			if !slices.Contains(reaching, p.path) && slices.ContainsFunc(of, func(root string) bool { return within(p.path, root) }) {
				if chain := tree.chain(p.path, library); chain != nil {
					t.Errorf("%s never reaches %s, however deep: take what it needs out of a package between them", strings.Join(chain, " imports "),
						library)
				}
			}
		}
		for _, path := range of {
			if _, stands := tree[path]; !stands {
				t.Errorf("%s: there is no such package", path)
			}
		}
		for _, dir := range linked {
			p, ok, err := loadPackage(dir)
			if err != nil || !ok {
				t.Fatalf("%s: %v", dir, err)
			}
			tree[p.path] = p.imports
			if chain := tree.chain(p.path, library); chain != nil {
				t.Errorf("%s: an autoscaler has a version of its own of %s", strings.Join(chain, " imports "), library)
			}
		}
	}
}

// importTree is what packages of the module import, by their path in it.
type importTree map[string][]string

func treeOf(packages []source) importTree {
	tree := importTree{}
	for _, p := range packages {
		tree[p.path] = p.imports
	}
	return tree
}

// chain returns the shortest chain of imports from a package to a library, through packages of the
// module; nil if there is none.
func (tree importTree) chain(from, library string) []string {
	before := map[string]string{from: ""}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for _, imported := range tree[queue[0]] {
			if within(imported, library) {
				chain := []string{imported}
				for at := queue[0]; at != ""; at = before[at] {
					chain = append([]string{at}, chain...)
				}
				return chain
			}
			inside, own := insideModule(imported)
			if _, seen := before[inside]; own && !seen {
				before[inside] = queue[0]
				queue = append(queue, inside)
			}
		}
	}
	return nil
}

// violations holds a package against the table; each answer names the rule and the remedy.
func violations(p source) []string {
	var out []string
	report := func(format string, args ...any) { out = append(out, p.path+": "+fmt.Sprintf(format, args...)) }

	r, ok := rowOf(p.path)
	if !ok {
		report("every package has a row in the table of layering_test.go: choose its layer and add one")
	}
	for _, imported := range p.imports {
		inside, own := insideModule(imported)
		switch {
		case own && ok:
			if rule := forbidden(r, inside); rule != "" {
				report("imports %s, but %s", inside, rule)
			}
		case !own:
			if rule := unwelcome(r, p.path, imported); rule != "" {
				report("imports %s, but %s", imported, rule)
			}
		}
	}
	switch want := "Package " + p.name + " "; {
	case p.doc == "":
		report("every package has a doc comment: say its one job and what it must not know")
	case p.name != "main" && !strings.HasPrefix(p.doc, want):
		report("a package comment begins with %q: rephrase its first sentence", want)
	}
	if p.functions && !p.example && r.layer != data && !slices.Contains(withoutExample, p.path) {
		report("a public package has an Example that runs: add a func Example… with an // Output: comment")
	}
	return out
}

// forbidden returns the reason why a package with rule r may not import a package of this module;
// empty if it may.
func forbidden(r row, imported string) string {
	target, ok := rowOf(imported)
	switch {
	case !ok:
		return "that package has no row in the table of layering_test.go: add one"
	case target.path == r.path:
		return ""
	case r.only != nil && !slices.Contains(r.only, target.path):
		return fmt.Sprintf("of this module it may import %v only: hand the values in from a package above", r.only)
	case target.layer < r.layer:
		return fmt.Sprintf("imports point downwards and %s is above %s: return a value and let the upper package act on it",
			layerNames[target.layer], layerNames[r.layer])
	case target.layer == r.layer && !slices.Contains(r.peers, target.path):
		return fmt.Sprintf("packages of one layer (%s) keep apart: join the two in a package above", layerNames[r.layer])
	}
	return ""
}

// unwelcome returns the reason why the package at path may not import a package from outside the
// module; empty if it may.
func unwelcome(r row, path, imported string) string {
	if r.stdlib && strings.Contains(strings.SplitN(imported, "/", 2)[0], ".") {
		return "it uses the standard library only: move what needs the library to a package above"
	}
	for _, banned := range r.banned {
		if within(imported, banned) {
			return fmt.Sprintf("the layer %s stays free of it: take the value as an argument, or return it", layerNames[r.layer])
		}
	}
	for library, owner := range reserved {
		if within(imported, library) && !within(path, owner) {
			return fmt.Sprintf("%s belongs to %s: ask that package", library, owner)
		}
	}
	return ""
}

// rowOf finds the row of a package; an internal package shares the row of the folder it is internal
// to.
func rowOf(path string) (row, bool) {
	public, _, _ := strings.Cut(path+"/", "/internal/")
	i := slices.IndexFunc(table, func(r row) bool { return r.path == strings.TrimSuffix(public, "/") })
	if i < 0 {
		return row{}, false
	}
	return table[i], true
}

func insideModule(imported string) (string, bool) {
	if imported == module {
		return ".", true
	}
	return strings.CutPrefix(imported, module+"/")
}

func within(path, root string) bool {
	return path == root || strings.HasPrefix(path, root+"/")
}

// load parses every package below root. It reads the files itself instead of asking the go command,
// so that a cached test result is dropped when one of them changes.
func load(root string) ([]source, error) {
	var packages []source
	err := filepath.WalkDir(root, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if dir != root && foreign(dir) {
			return filepath.SkipDir
		}
		p, ok, err := loadPackage(dir)
		if ok {
			packages = append(packages, p)
		}
		return err
	})
	return packages, err
}

// foreign reports whether a folder is not part of the module: hidden, test data, or another module.
func foreign(dir string) bool {
	base := filepath.Base(dir)
	if base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return true
	}
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

func loadPackage(dir string) (source, bool, error) {
	p := source{path: path.Clean(filepath.ToSlash(dir))}
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return p, false, err
	}
	var tests []*ast.File
	for _, name := range names {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return p, false, err
		}
		if strings.HasSuffix(name, "_test.go") {
			tests = append(tests, file)
			continue
		}
		if !ast.IsGenerated(file) {
			p.lines += set.File(file.FileStart).LineCount()
		}
		if err := p.add(file); err != nil {
			return p, false, err
		}
	}
	p.example = slices.ContainsFunc(doc.Examples(tests...), func(e *doc.Example) bool { return e.Output != "" || e.EmptyOutput })
	return p, p.name != "", nil
}

// add takes in one file that is not a test.
func (p *source) add(file *ast.File) error {
	p.name = file.Name.Name
	if file.Doc != nil {
		p.doc = file.Doc.Text()
	}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		if !slices.Contains(p.imports, imported) {
			p.imports = append(p.imports, imported)
		}
	}
	slices.Sort(p.imports)
	internal := slices.Contains(strings.Split(p.path, "/"), "internal")
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		p.functions = p.functions || ok && f.Recv == nil && f.Name.IsExported() && !internal
	}
	return nil
}

// The rules themselves are tested on packages that do not exist.
func TestLayeringRules(t *testing.T) {
	here := func(path string) string { return module + "/" + path }
	library := func(path string, imports ...string) source {
		return source{path: path, name: "x", doc: "Package x does one thing.", imports: imports}
	}
	tests := map[string]struct {
		source source
		want   string // part of the only violation; empty for none
	}{
		"downwards":                      {library("steering", here("apportion"), here("nodegroupset"), here("cloudprovider")), ""},
		"several layers down":            {library("cmd/evenkeel", here("configs/scenarios"), here("internal/simulate"), "os", "log/slog"), ""},
		"upwards":                        {library("nodegroupset", here("steering")), "imports point downwards and pipeline is above decisions"},
		"up to the entry":                {library("internal/simulate", here("cmd/evenkeel")), "entry is above drivers"},
		"a listed peer":                  {library("estimator", here("predicates")), ""},
		"the same peer, back":            {library("predicates", here("estimator")), "packages of one layer (decisions) keep apart"},
		"one driver, another":            {library("internal/plan", here("internal/simulate")), "packages of one layer (drivers) keep apart"},
		"an internal package of its own": {library("expander", here("expander/internal/grpcplugin")), ""},
		"an internal package itself":     {library("predicates/internal/shapes", "k8s.io/kubernetes/pkg/scheduler"), ""},
		"internal packages obey too":     {library("estimator/internal/x", here("internal/simulate")), "drivers is above decisions"},
		"a package without a row":        {library("utils"), "every package has a row"},
		"an import without a row":        {library("internal/simulate", here("utils")), "that package has no row"},
		"a narrow row, allowed":          {library("internal/document", here("api/v1alpha1"), "sigs.k8s.io/yaml"), ""},
		"a narrow row, left": {library("internal/document", here("nodegroupset")),
			"[internal/admission api/v1alpha1 internal/spelling] only"},
		"arithmetic and contracts":      {library("apportion", here("cloudprovider")), "[] only"},
		"arithmetic and a library":      {library("apportion", "k8s.io/api/core/v1"), "standard library only"},
		"arithmetic and big integers":   {library("apportion", "math/big", "slices"), ""},
		"arithmetic and random numbers": {library("apportion", "math/rand/v2"), "arithmetic stays free of it"},
		"arithmetic and the clock":      {library("apportion", "time"), "arithmetic stays free of it"},
		"arithmetic and files":          {library("apportion", "os"), "arithmetic stays free of it"},
		"decisions and the clock":       {library("expander", "time"), "decisions stays free of it"},
		"decisions and logging":         {library("predicates", "log/slog"), "decisions stays free of it"},
		"decisions and the network":     {library("nodegroupset", "net/http"), "decisions stays free of it"},
		"a name that only looks alike":  {library("nodegroupset", "network.example/osprey"), ""},
		"the scheduler in predicates":   {library("predicates", "k8s.io/kubernetes/pkg/scheduler/framework"), ""},
		"the scheduler elsewhere": {library("steering", "k8s.io/kubernetes/pkg/scheduler/framework"),
			"k8s.io/kubernetes belongs to predicates"},
		"embedded data":      {library("configs/labelpacks", "embed"), ""},
		"a program":          {source{path: "cmd/evenkeel", name: "main", doc: "Evenkeel levels node groups."}, ""},
		"no comment":         {source{path: "internal/plan", name: "plan"}, "every package has a doc comment"},
		"an unusual comment": {source{path: "internal/plan", name: "plan", doc: "Plans."}, `begins with "Package plan "`},
		"no example": {source{path: "internal/plan", name: "plan", doc: "Package plan plans.", functions: true},
			"an Example that runs"},
		"data needs no example": {source{path: "configs/scenarios", name: "scenarios", doc: "Package scenarios x.", functions: true}, ""},
		"an example":            {source{path: "internal/plan", name: "plan", doc: "Package plan plans.", functions: true, example: true}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := violations(test.source)
			if test.want == "" && len(got) > 0 {
				t.Errorf("unexpected: %q", got)
			}
			if test.want != "" && (len(got) != 1 || !strings.Contains(got[0], test.want)) {
				t.Errorf("got %q, want one violation with %q", got, test.want)
			}
		})
	}
}

func TestWhatIsReached(t *testing.T) {
	here := func(path string) string { return module + "/" + path }
	tree := treeOf([]source{
		{path: "a", imports: []string{"os", here("b"), here("c")}},
		{path: "b", imports: []string{here("a"), here("d")}},
		{path: "c", imports: []string{here("d"), here("e")}},
		{path: "d", imports: []string{"k8s.io/kubernetesx"}},
		{path: "e", imports: []string{"k8s.io/kubernetes/pkg/scheduler"}},
	})
	for from, want := range map[string]string{
		"a": "a c e k8s.io/kubernetes/pkg/scheduler", "b": "b a c e k8s.io/kubernetes/pkg/scheduler", "e": "e k8s.io/kubernetes/pkg/scheduler",
		"d": "", "unknown": "",
	} {
		if got := strings.Join(tree.chain(from, "k8s.io/kubernetes"), " "); got != want {
			t.Errorf("from %s: %q, want %q", from, got, want)
		}
	}
}

// The reader is tested on a tree that breaks every rule it looks for.
func TestLayeringReadsTheTree(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		name = filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("plain/a.go", "// Package plain is read.\npackage plain\n\nimport _ \"time\"\n\nfunc Do() {}\n")
	write("plain/b.go", "package plain\n\nimport (\n\t_ \"os\"\n\t_ \"time\"\n)\n")
	write("plain/a_test.go", "package plain\n\nimport _ \"net\"\n\nfunc Example() {\n\t// Output:\n}\n")
	write("silent/a.go", "package silent\n\nfunc do() {}\n")
	write("silent/a_test.go", "package silent\n\nfunc Example() {}\n")
	write("plain/testdata/a.go", "package ignored\n")
	write("nested/go.mod", "module nested\n")
	write("nested/a.go", "package ignored\n")

	packages, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	for i := range packages {
		packages[i].path = filepath.Base(packages[i].path)
	}
	got := fmt.Sprintf("%+v", packages)
	want := fmt.Sprintf("%+v", []source{
		{path: "plain", name: "plain", doc: "Package plain is read.\n", imports: []string{"os", "time"}, functions: true, example: true,
			lines: 12},
		{path: "silent", name: "silent", lines: 3},
	})
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
