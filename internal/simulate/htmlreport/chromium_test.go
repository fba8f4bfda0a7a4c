package htmlreport_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	_ "image/png" // what Chromium writes
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/internal/simulate/htmlreport"
)

// browser finds Chromium. If there is none the test is skipped, but for CI, which
// must have one.
func browser(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("no Chromium found: apt-get install chromium")
	}
	t.Skip("no Chromium found")
	return ""
}

// open lets Chromium show a page, with more flags, and returns what it prints and
// what it logs.
func open(t testing.TB, page string, flags ...string) (printed, logged string) {
	t.Helper()
	flags = append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run", "--disable-extensions",
		"--disable-background-networking", "--enable-logging=stderr", "--user-data-dir=" + t.TempDir(),
	}, flags...)
	cmd := exec.CommandContext(context.Background(), browser(t), append(flags, "file://"+page)...)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	return out.String(), log.String()
}

func write(t testing.TB, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// complaints are what a page made Chromium write on its console.
func complaints(logged string) []string {
	return regexp.MustCompile(`.*CONSOLE.*`).FindAllString(logged, -1)
}

// TestChromiumShowsThePage has Chromium take a picture in each theme: it is not
// empty, has the theme's ground, and the console stays silent.
func TestChromiumShowsThePage(t *testing.T) {
	browser(t)
	small := fleet(9, 40)
	page := write(t, pageOf(t, htmlreport.Result{Comparison: compared(small, fleet(9, 30))}))
	for theme, c := range map[string]struct {
		flag   string
		bright bool
	}{"light": {"1", true}, "dark": {"0", false}} {
		t.Run(theme, func(t *testing.T) {
			t.Parallel()
			picture := filepath.Join(t.TempDir(), "page.png")
			_, logged := open(t, page, "--window-size=1200,3000", "--blink-settings=preferredColorScheme="+c.flag, "--screenshot="+picture)
			if said := complaints(logged); len(said) > 0 {
				t.Errorf("console: %q", said)
			}
			file, err := os.Open(picture)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			shown, _, err := image.Decode(file)
			if err != nil {
				t.Fatal(err)
			}
			colors, ground := paints(shown)
			if len(colors) < 8 {
				t.Errorf("%d colours that matter, want at least 8", len(colors))
			}
			if bright := ground > 0x8000; bright != c.bright {
				t.Errorf("the ground's brightness is %d, bright: want %t", ground, c.bright)
			}
		})
	}
}

// paints are the colours that many pixels of a picture have, and the brightness of
// the one in its corner.
func paints(picture image.Image) (colors map[[3]uint32]int, ground uint32) {
	pixels := map[[3]uint32]int{}
	bounds := picture.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			r, g, b, _ := picture.At(x, y).RGBA()
			pixels[[3]uint32{r, g, b}]++
		}
	}
	colors = map[[3]uint32]int{}
	for color, n := range pixels {
		if n > 500 {
			colors[color] = n
		}
	}
	r, g, b, _ := picture.At(bounds.Min.X, bounds.Min.Y).RGBA()
	return colors, (r + g + b) / 3
}

// TestConsoleIsHeard: a page that is wrong does make Chromium complain, so that
// silence says something.
func TestConsoleIsHeard(t *testing.T) {
	page := pageOf(t, htmlreport.Result{Report: fleet(3, 3)})
	_, logged := open(t, write(t, strings.Replace(page, "</main>", "<script>1</script></main>", 1)), "--dump-dom")
	if said := complaints(logged); len(said) != 1 || !strings.Contains(said[0], "Content Security Policy") {
		t.Errorf("console: %q", said)
	}
}

// BenchmarkOpen measures how long Chromium takes to load and lay out a page, without
// its own start.
func BenchmarkOpen(b *testing.B) {
	browser(b)
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("groups=%d,events=%d", n, n), func(b *testing.B) {
			page := write(b, pageOf(b, htmlreport.Result{Report: fleet(n, n)}))
			frame := write(b, `<script>begin = performance.now()</script><iframe width=1200 height=3000 src="file://`+page+`"
				onload="this.contentDocument.body.offsetHeight; document.title = 'took ' + (performance.now() - begin) + ' ms'"></iframe>`)
			total := 0.0
			for b.Loop() {
				printed, _ := open(b, frame, "--dump-dom", "--allow-file-access-from-files")
				took := regexp.MustCompile(`took ([0-9.]+) ms`).FindStringSubmatch(printed)
				if took == nil {
					b.Fatalf("the page was not loaded: %.300s", printed)
				}
				ms, err := strconv.ParseFloat(took[1], 64)
				if err != nil {
					b.Fatal(err)
				}
				total += ms
			}
			b.ReportMetric(total/float64(b.N), "ms/open")
			b.ReportMetric(0, "ns/op")
		})
	}
}
