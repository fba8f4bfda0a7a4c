package evenkeel_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// oneDecision has the production code that uses each function by which nodes are shared. What replaces
// such a function in its one place changes everything that is named here, and nothing else decides.
var oneDecision = map[string][]string{
	"nodegroupset.Split":   {"internal/doctor", "internal/linked", "internal/plan", "spreadplan", "steering"},
	"spreadplan.New":       {"internal/linked"},
	"topologyspread.Split": {"internal/pending", "internal/plan", "spreadplan"},
	"steering.New":         {"sidecar"},
	"steering.State.Step":  {"sidecar"},
	"sidecar.New":          {"cmd/evenkeel", "internal/simulate"},
	"sidecar.NewExpander":  {"cmd/evenkeel", "internal/simulate"},
	"linked.ScaleUp.Split": {"internal/autoscaler"},
}

// modes has, for each mode of a scenario, the packages from the simulation down to the function that
// shares nodes in it; each imports the next. In mode stock Cluster Autoscaler's own code does.
var modes = map[string][]string{
	"stock":    {"internal/simulate", "internal/autoscaler"},
	"expander": {"internal/simulate", "sidecar", "steering", "nodegroupset"},
	"linked":   {"internal/simulate", "internal/autoscaler", "internal/linked", "nodegroupset"},
	"sidecar":  {"internal/simulate", "sidecar", "steering", "nodegroupset"},
}

func TestNodesAreSharedInOnePlace(t *testing.T) {
	packages, err := load(".")
	if err != nil {
		t.Fatal(err)
	}
	for decision, want := range oneDecision {
		folder, name, _ := strings.Cut(decision, ".")
		at := folder
		if folder == "linked" {
			at = "internal/linked"
		}
		if !declares(t, at, name) {
			t.Errorf("there is no %s: name the function that decides now", decision)
		}
		method := name[strings.LastIndex(name, ".")+1:]
		var got []string
		for _, p := range packages {
			if p.path != at && slices.Contains(p.imports, module+"/"+at) && mentions(t, p.path, module+"/"+at, method, method != name) {
				got = append(got, p.path)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s is used by %v, want %v: a second place that shares nodes is a second decision", decision, got, want)
		}
	}
}

// TestEveryModeIsOneThatRuns: a mode of a scenario has a row above, and its packages import each other.
func TestEveryModeIsOneThatRuns(t *testing.T) {
	packages, err := load(".")
	if err != nil {
		t.Fatal(err)
	}
	tree := treeOf(packages)
	if got, want := modesOfScenarios(t), slices.Sorted(maps.Keys(modes)); !slices.Equal(got, want) {
		t.Errorf("modes %v, want %v: say above which packages decide in each", got, want)
	}
	for mode, chain := range modes {
		for i := range len(chain) - 1 {
			if !slices.Contains(tree[chain[i]], module+"/"+chain[i+1]) && !slices.Contains(tree[chain[i]], chain[i+1]) {
				t.Errorf("mode %s: %s does not import %s", mode, chain[i], chain[i+1])
			}
		}
	}
}

// modesOfScenarios are the values of the constants of type Mode in internal/simulate.
func modesOfScenarios(t *testing.T) []string {
	var out []string
	eachFile(t, "internal/simulate", func(file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Mode" {
				for _, value := range spec.Values {
					text, err := strconv.Unquote(value.(*ast.BasicLit).Value)
					if err != nil {
						t.Fatal(err)
					}
					out = append(out, text)
				}
			}
			return true
		})
	})
	slices.Sort(out)
	return out
}

// mentions reports whether the code of a folder uses a function of a package that it imports, or calls
// a method of that name in a file that imports the package.
func mentions(t *testing.T, folder, imported, name string, method bool) bool {
	found := false
	eachFile(t, folder, func(file *ast.File) {
		local := ""
		for _, spec := range file.Imports {
			if spec.Path.Value == strconv.Quote(imported) {
				if local = imported[strings.LastIndex(imported, "/")+1:]; spec.Name != nil {
					local = spec.Name.Name
				}
			}
		}
		if local == "" {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if ok && s.Sel.Name == name {
				x, plain := s.X.(*ast.Ident)
				found = found || method || plain && x.Name == local
			}
			return true
		})
	})
	return found
}

// eachFile visits the files of a folder that are no tests.
func eachFile(t *testing.T, folder string, visit func(*ast.File)) {
	names, err := filepath.Glob(filepath.Join(filepath.FromSlash(folder), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		visit(file)
	}
}
