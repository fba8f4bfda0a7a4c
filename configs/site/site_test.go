package site

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/html"
)

var inRepository = regexp.MustCompile(`^https://github\.com/evenkeel/evenkeel/(?:blob|tree)/0123abcd/([^#]*)`)

// made is the folder of a site that is built once for all tests.
var (
	made  string
	built = sync.OnceValue(func() error { return build(made) })
)

func build(output string) error {
	return Build(context.Background(), ".", output, Options{
		Version: "v0.2.0", Ref: "0123abcd", Versions: []string{"v0.3.0-rc.1", "v0.2.0", "v0.1.0"},
	})
}

func TestMain(m *testing.M) {
	var err error
	if made, err = os.MkdirTemp("", "site"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(made)
	m.Run()
}

func output(t *testing.T) string {
	t.Helper()
	if err := built(); err != nil {
		t.Fatal(err)
	}
	return made
}

// A document is what the tests look at of a page.
type document struct {
	links   []string // href and src
	ids     []string
	scripts int // with text of their own
	text    string
}

func read(t *testing.T, name string) document {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	root, err := html.Parse(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	d := document{text: string(text)}
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && n.Data == "script" && n.FirstChild != nil {
			d.scripts++
		}
		for _, a := range n.Attr {
			switch a.Key {
			case "href", "src":
				d.links = append(d.links, a.Val)
			case "id":
				d.ids = append(d.ids, a.Val)
			case "style", "onclick":
				d.scripts++
			}
		}
	}
	return d
}

// pages reads all pages of a site by their paths in it.
func pages(t *testing.T, site string) map[string]document {
	t.Helper()
	all := map[string]document{}
	err := fs.WalkDir(os.DirFS(site), ".", func(name string, _ fs.DirEntry, err error) error {
		if err == nil && path.Ext(name) == ".html" {
			all[name] = read(t, filepath.Join(site, name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestLinksLeadSomewhere: links between pages and to headings are resolved, and those to files of the repository name
// files that exist. Every page of docs is there, and can be reached from the first one.
func TestLinksLeadSomewhere(t *testing.T) {
	all := pages(t, filepath.Join(output(t), "v0.2.0"))
	reached, next := map[string]bool{"index.html": true}, []string{"index.html"}
	for len(next) > 0 {
		from := next[0]
		next = next[1:]
		for _, link := range all[from].links {
			to, ok := follow(t, all, from, link)
			if ok && !reached[to] {
				reached[to] = true
				next = append(next, to)
			}
		}
	}
	sources := 0
	err := fs.WalkDir(os.DirFS("../../docs"), ".", func(name string, _ fs.DirEntry, err error) error {
		if path.Ext(name) != ".md" {
			return err
		}
		sources++
		page := strings.TrimSuffix(name, ".md") + ".html"
		if name == "README.md" {
			page = "index.html"
		}
		if !reached[page] {
			t.Errorf("%s is not reached: it belongs in data/menu.yaml", page)
		}
		return err
	})
	if err != nil || sources < 30 || sources != len(all) {
		t.Errorf("%d pages of %d in docs: %v", len(all), sources, err)
	}
}

// follow returns the page of the site that a link leads to, if it is one, and reports a link that leads nowhere.
func follow(t *testing.T, all map[string]document, from, link string) (string, bool) {
	t.Helper()
	if found := inRepository.FindStringSubmatch(link); found != nil {
		file := found[1]
		if _, err := os.Stat("../../" + file); err != nil {
			t.Errorf("%s: %s: %v", from, link, err)
		}
		return "", false
	}
	if strings.Contains(link, "://") {
		return "", false
	}
	file, anchor, _ := strings.Cut(link, "#")
	to := from
	if file != "" {
		to = path.Join(path.Dir(from), file)
	}
	if strings.HasPrefix(to, "../") { // another version
		return "", false
	}
	page, ok := all[to]
	if !ok {
		if _, err := os.Stat(filepath.Join(output(t), "v0.2.0", to)); err != nil {
			t.Errorf("%s: %s leads nowhere", from, link)
		}
		return "", false
	}
	if anchor != "" && !slices.Contains(page.ids, anchor) {
		t.Errorf("%s: %s has no heading #%s", from, to, anchor)
	}
	return to, true
}

// TestPagesMayBeServedStrictly: no page has a script or a style of its own, an id twice, or loads from elsewhere.
func TestPagesMayBeServedStrictly(t *testing.T) {
	for name, page := range pages(t, filepath.Join(output(t), "v0.2.0")) {
		if page.scripts > 0 || strings.Contains(page.text, "<style") || strings.Contains(page.text, ` src="http`) {
			t.Errorf("%s has scripts or styles inline, or loads from elsewhere", name)
		}
		slices.Sort(page.ids)
		if len(slices.Compact(slices.Clone(page.ids))) != len(page.ids) {
			t.Errorf("%s has an id twice: %q", name, page.ids)
		}
		if !strings.Contains(page.text, "<noscript>") || strings.Contains(page.text, "<title></title>") {
			t.Errorf("%s has no title, or does not say that search needs JavaScript", name)
		}
	}
}

// TestSameBytes: a second build writes the same.
func TestSameBytes(t *testing.T) {
	again := t.TempDir()
	if err := build(again); err != nil {
		t.Fatal(err)
	}
	files := 0
	err := fs.WalkDir(os.DirFS(again), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files++
		got, err := os.ReadFile(filepath.Join(again, name))
		if err != nil {
			return err
		}
		want, err := os.ReadFile(filepath.Join(output(t), name))
		if err == nil && !bytes.Equal(got, want) {
			t.Errorf("%s differs", name)
		}
		return err
	})
	if err != nil || files < 60 {
		t.Errorf("%d files: %v", files, err)
	}
}

// TestVersions: a page names all versions and its own, and the latest release is an alias.
func TestVersions(t *testing.T) {
	page := read(t, filepath.Join(output(t), "v0.2.0", "requests", "not-similar.html"))
	for _, version := range []string{"v0.3.0-rc.1", "v0.2.0", "v0.1.0", "latest"} {
		if want := "../../" + version + "/index.html"; !slices.Contains(page.links, want) {
			t.Errorf("no link to %s", want)
		}
	}
	if !strings.Contains(page.text, `index.html" aria-current="true">v0.2.0</a>`) || !strings.Contains(page.text, "<summary>v0.2.0</summary>") {
		t.Error("the page does not say which version it is of")
	}
	if read(t, filepath.Join(output(t), "latest", "requests", "not-similar.html")).text != page.text {
		t.Error("v0.2.0 is not the latest")
	}
	if top := read(t, filepath.Join(output(t), "index.html")); !slices.Equal(top.links, []string{"latest/index.html"}) {
		t.Errorf("the top leads to %q", top.links)
	}
	for versions, want := range map[string]string{
		"v0.3.0-rc.1 v0.2.0 v0.1.0": "v0.2.0", "v0.1.0-rc.2 v0.1.0-rc.1": "v0.1.0-rc.2",
	} {
		if got := newest(strings.Fields(versions)); got != want {
			t.Errorf("the newest of %s is %s, want %s", versions, got, want)
		}
	}
	for _, name := range []string{"", "../x", "latest", "a b"} {
		if err := Build(context.Background(), ".", t.TempDir(), Options{Version: name, Ref: "main"}); err == nil {
			t.Errorf("%q is taken for a version", name)
		}
	}
}

// TestIndex: the index has a row for each section, with its text and without markup.
func TestIndex(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(output(t), "v0.2.0", "search.json"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct{ Path, Page, Heading, Text string }
	if err := json.Unmarshal(text, &rows); err != nil {
		t.Fatal(err)
	}
	all := pages(t, filepath.Join(output(t), "v0.2.0"))
	seen := map[string]bool{}
	for _, row := range rows {
		seen[row.Path] = true
		follow(t, all, "index.html", row.Path)
		if row.Page == "" || row.Heading == "" || strings.Contains(row.Heading+row.Text, "section-of-page") {
			t.Errorf("a row is wrong: %+v", row)
		}
	}
	for _, want := range []string{"index.html", "concepts.html", "concepts.html#taking-nodes-away", "requests/spot-ratio.html#limits"} {
		if !seen[want] {
			t.Errorf("no row for %s", want)
		}
	}
}
