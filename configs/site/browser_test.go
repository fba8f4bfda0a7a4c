package site

import (
	"bytes"
	"image"
	_ "image/png" // what Chromium writes
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// policy is the strictest that a server may send with the pages.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'"

// open lets Chromium show a page of the site from a server that is strict, and returns what it prints.
func open(t *testing.T, page string, flags ...string) string {
	t.Helper()
	browser := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
			break
		}
	}
	if browser == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("no Chromium found: apt-get install chromium")
		}
		t.Skip("no Chromium found")
	}
	files := http.FileServer(http.Dir(output(t)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		switch r.URL.Path {
		case "/favicon.ico":
		case "/v0.2.0/search.js":
			w.Header().Set("Content-Type", "text/javascript")
			for _, name := range []string{filepath.Join(output(t), "v0.2.0", "search.js"), "testdata/keys.js"} {
				text, err := os.ReadFile(name)
				if err != nil {
					t.Error(err)
				}
				_, _ = w.Write(text)
			}
		default:
			files.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	cmd := exec.CommandContext(t.Context(), browser, append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run", "--disable-extensions",
		"--disable-background-networking", "--enable-logging=stderr", "--user-data-dir=" + t.TempDir(),
		"--virtual-time-budget=20000",
	}, append(flags, server.URL+"/v0.2.0/"+page)...)...)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	if said := regexp.MustCompile(`.*CONSOLE.*`).FindAllString(log.String(), -1); len(said) > 0 {
		t.Errorf("%s: the console says %q", page, said)
	}
	return out.String()
}

// TestSearch: the script finds words and shows the best section first, from a page in a folder as well.
func TestSearch(t *testing.T) {
	first := regexp.MustCompile(`(?s)<ol><li><a href="http://[^/]*/v0\.2\.0/([^"]*)">([^<]*)</a>`)
	for _, test := range []struct{ page, query, path string }{
		{"index.html", "zonal+shift", "zonal-shift.html"},
		{"requests/not-similar.html", "TAKING+nodes+away", "concepts.html#taking-nodes-away"},
		{"index.html", "startupDeadline", "policies.html"},
	} {
		t.Run(test.query, func(t *testing.T) {
			t.Parallel()
			printed := open(t, test.page+"?q="+test.query, "--dump-dom")
			got := first.FindStringSubmatch(printed)
			if got == nil || !strings.HasPrefix(got[1], test.path) {
				t.Errorf("first found: %q, want %s", got, test.path)
			}
		})
	}
	t.Run("nothing", func(t *testing.T) {
		t.Parallel()
		if printed := open(t, "index.html?q=xyzzy+concepts", "--dump-dom"); !strings.Contains(printed, ">0 sections found<") {
			t.Error("the page does not say that nothing was found")
		}
	})
}

// TestSearchByKeyboard: a slash goes to the field, arrows go through what was found and back, and Escape ends the search. A script
// in testdata presses the keys.
func TestSearchByKeyboard(t *testing.T) {
	printed := open(t, "index.html?keys", "--dump-dom")
	const want = "query; zonal-shift.html; zonal-shift.html#try-it; zonal-shift.html; query; hidden"
	_, title, _ := strings.Cut(printed, "<title>")
	if got, _, _ := strings.Cut(title, "</title>"); got != want {
		t.Errorf("the keys lead through %s, want %s", got, want)
	}
}

// TestThemes: the page follows the theme of the reader.
func TestThemes(t *testing.T) {
	for theme, flag := range map[string]string{"light": "1", "dark": "0"} {
		t.Run(theme, func(t *testing.T) {
			t.Parallel()
			picture := filepath.Join(t.TempDir(), "page.png")
			open(t, "simulate.html", "--window-size=1200,900", "--blink-settings=preferredColorScheme="+flag, "--screenshot="+picture)
			file, err := os.Open(picture)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			shown, _, err := image.Decode(file)
			if err != nil {
				t.Fatal(err)
			}
			if r, _, _, _ := shown.At(2, 2).RGBA(); (r > 0x8000) != (theme == "light") {
				t.Errorf("the ground has the brightness %d", r)
			}
		})
	}
}
