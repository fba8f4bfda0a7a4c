package evenkeel_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A wording is a phrase that the project does not use, with its remedy.
type wording struct {
	phrase *regexp.Regexp
	write  string // instead
}

// TestWords: comments, messages, scenarios and pages use none of the phrases in the word list of
// CONTRIBUTING.md.
func TestWords(t *testing.T) {
	const contributing = "CONTRIBUTING.md"
	guide, err := os.ReadFile(contributing)
	if err != nil {
		t.Fatal(err)
	}
	start, end := wordsSection(string(guide))
	banned := wordings(string(guide[start:end]))
	if len(banned) < 20 {
		t.Fatalf("the section Words of %s has %d phrases", contributing, len(banned))
	}
	report := func(file, text string, line func(offset int) int) {
		for _, w := range banned {
			for _, at := range w.phrase.FindAllStringIndex(text, -1) {
				t.Errorf("%s:%d: %q: write %q", file, line(at[0]), text[at[0]:at[1]], w.write)
			}
		}
	}

	// Blanks instead of the section keep the numbers of the lines.
	blank := printing.ReplaceAllString(string(guide[start:end]), " ")
	checkPage(contributing, string(guide[:start])+blank+string(guide[end:]), report)
	err = filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			base := d.Name()
			if base == "testdata" || base == "bin" || base != "." && strings.HasPrefix(base, ".") {
				return filepath.SkipDir
			}
			return nil
		}
		switch filepath.Ext(name) {
		case ".go":
			return checkSource(name, nil, report)
		case ".yaml", ".html", ".md":
			text, err := os.ReadFile(name)
			if err != nil || strings.HasPrefix(string(text), "# Code generated") || name == contributing {
				return err
			}
			checkPage(name, string(text), report)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// wordsSection returns where the section of the word list begins and ends.
func wordsSection(guide string) (start, end int) {
	const heading = "\n## Words\n"
	start = strings.Index(guide, heading)
	if start < 0 {
		return 0, 0
	}
	start += len(heading)
	if next := strings.Index(guide[start:], "\n## "); next >= 0 {
		return start, start + next
	}
	return start, len(guide)
}

// wordings reads the rows of the word list: | write | not | for |. A phrase in backquotes is
// checked, and "…" in it is any word.
func wordings(section string) []wording {
	var out []wording
	quoted := regexp.MustCompile("`([^`]+)`")
	for _, line := range strings.Split(section, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[2], -1) {
			words := strings.Fields(m[1])
			for i, w := range words {
				words[i] = strings.ReplaceAll(regexp.QuoteMeta(w), "…", `\w+`)
			}
			phrase := regexp.MustCompile(`(?i)\b` + strings.Join(words, `\s+`) + `\b`)
			out = append(out, wording{phrase: phrase, write: strings.TrimSpace(cells[1])})
		}
	}
	return out
}

type reporter func(file, text string, line func(offset int) int)

// printing matches all but line breaks.
var printing = regexp.MustCompile(`[^\n]`)

// code is what a page quotes: blocks and spans.
var code = regexp.MustCompile("(?s)\n *```.*?\n *```|`[^`\n]+`")

// checkPage reports phrases in a page, outside code.
func checkPage(name, text string, report reporter) {
	text = code.ReplaceAllStringFunc(text, func(s string) string { return printing.ReplaceAllString(s, "\x00") })
	report(name, text, func(offset int) int { return 1 + strings.Count(text[:offset], "\n") })
}

// checkSource reports phrases in the comments of a Go file, also those that continue on the next
// line, and in the strings of one that is not a test. src is as for parser.ParseFile.
func checkSource(name string, src any, report reporter) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if ast.IsGenerated(file) {
		return nil
	}
	if !strings.HasSuffix(name, "_test.go") {
		checkStrings(name, files, file, report)
	}
	for _, group := range file.Comments {
		var text strings.Builder
		var starts []int // offsets of the lines in text
		for _, c := range group.List {
			for line := range strings.Lines(c.Text) {
				starts = append(starts, text.Len())
				text.WriteString(strings.TrimPrefix(line, "//") + "\n")
			}
		}
		first := files.Position(group.Pos()).Line
		report(name, text.String(), func(offset int) int {
			i, found := slices.BinarySearch(starts, offset)
			if !found {
				i--
			}
			return first + i
		})
	}
	return nil
}

func checkStrings(name string, files *token.FileSet, file *ast.File, report reporter) {
	ast.Inspect(file, func(n ast.Node) bool {
		if field, ok := n.(*ast.Field); ok {
			field.Tag = nil // the names of fields in documents are stable
		}
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			first := files.Position(lit.Pos()).Line
			report(name, lit.Value, func(offset int) int { return first + strings.Count(lit.Value[:offset], "\n") })
		}
		return true
	})
}

func TestWordsFindsPhrases(t *testing.T) {
	guide := "# Guide\n\n## Words\n\n| write | not | for |\n|---|---|---|\n" +
		"| cannot | `can not` | |\n| is not a K of an L | `is no … of` | |\n| quota | cap | |\n\n## Next\n\nIt can not.\n"
	start, end := wordsSection(guide)
	banned := wordings(guide[start:end])
	var got []string
	report := func(file, text string, line func(offset int) int) {
		for _, w := range banned {
			for _, at := range w.phrase.FindAllStringIndex(text, -1) {
				got = append(got, fmt.Sprintf("%s:%d %s", file, line(at[0]), w.write))
			}
		}
	}
	src := "package p\n\n// It can\n// not: a cap. It is no kind of thing.\n\n/* Can\nnot. */\nvar x = `can\nnot` // I can not\n"
	if err := checkSource("a.go", src, report); err != nil {
		t.Fatal(err)
	}
	if err := checkSource("a_test.go", "package p\n\nvar x = `can not`\n// can not\n", report); err != nil {
		t.Fatal(err)
	}
	if err := checkSource("b.go", "// Code generated by x. DO NOT EDIT.\n\npackage p // can not\n", report); err != nil {
		t.Fatal(err)
	}
	checkPage("a.md", "We cannot.\nThis is no part of\nit, it can\nnot be.\n\n```\ncan not\n```\n`can not`\n", report)
	want := []string{
		"a.go:8 cannot", "a.go:3 cannot", "a.go:4 is not a K of an L", "a.go:6 cannot", "a.go:9 cannot",
		"a_test.go:4 cannot",
		"a.md:3 cannot", "a.md:2 is not a K of an L",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
