package evenkeel_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The table of decisions in docs/architecture.md names functions that exist, `folder.Function` or
// `folder.Type.Method`, and packages that import them.
func TestTableOfDecisions(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## Where each decision is made\n")
	section, _, _ = strings.Cut(section, "\n## ")
	name := regexp.MustCompile("`([a-z0-9/]+)\\.([A-Za-z.]+)`")
	folder := regexp.MustCompile("`([a-z/]+)`")
	rows := 0
	for row := range strings.Lines(section) {
		names := name.FindAllStringSubmatch(row, -1)
		if !strings.HasPrefix(row, "| ") || len(names) == 0 {
			continue
		}
		rows++
		for _, n := range names {
			if !declares(t, n[1], n[2]) {
				t.Errorf("%s has no %s: name the function that decides now in this row of docs/architecture.md:\n%s", n[1], n[2], row)
			}
		}
		for _, user := range folder.FindAllStringSubmatch(row, -1) {
			p, _, err := loadPackage(user[1])
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(p.imports, module+"/"+names[0][1]) {
				t.Errorf("%s does not import %s: name the packages that do in this row of docs/architecture.md:\n%s", user[1], names[0][1], row)
			}
		}
	}
	if !found || rows < 10 {
		t.Errorf("the table of decisions in docs/architecture.md has %d rows", rows)
	}
}

// The table of layers in docs/architecture.md is that of layering_test.go.
func TestTableOfLayers(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	for layer, name := range layerNames {
		want := "| " + name + " |"
		for _, r := range table {
			if r.layer == layer {
				want += " `" + r.path + "`"
			}
		}
		if want += " |"; !strings.Contains(string(text), "\n"+want+"\n") {
			t.Errorf("docs/architecture.md lacks this row:\n%s", want)
		}
	}
}

// declares reports whether a folder's code declares a function, or a method with its type in front.
func declares(t *testing.T, folder, name string) bool {
	files, err := filepath.Glob(filepath.Join(filepath.FromSlash(folder), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && nameOf(f) == name {
				return true
			}
		}
	}
	return false
}

// nameOf is the name of a function as the table has it.
func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	receiver := f.Recv.List[0].Type
	if pointer, ok := receiver.(*ast.StarExpr); ok {
		receiver = pointer.X
	}
	if generic, ok := receiver.(*ast.IndexExpr); ok {
		receiver = generic.X
	}
	if of, ok := receiver.(*ast.Ident); ok {
		return of.Name + "." + f.Name.Name
	}
	return ""
}
