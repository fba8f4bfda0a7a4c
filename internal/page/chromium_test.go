package page_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/evenkeel/evenkeel/internal/page"
	"github.com/evenkeel/evenkeel/steering"
)

// tab is a page in Chromium, which is asked over the pipe of its DevTools protocol.
type tab struct {
	t       *testing.T
	to      io.Writer
	from    *bufio.Reader
	session string
	asked   int
	errors  []string // that the console has shown
}

// openTab shows an address. Without Chromium the test is skipped, but for CI, which must have one.
func openTab(t *testing.T, address string) *tab {
	t.Helper()
	path, err := exec.LookPath("chromium")
	switch {
	case err != nil && os.Getenv("CI") != "":
		t.Fatal("no Chromium found: apt-get install chromium")
	case err != nil:
		t.Skip("no Chromium found")
	}
	in, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-extensions", "--disable-background-networking", "--remote-debugging-pipe", "--user-data-dir="+t.TempDir())
	cmd.ExtraFiles = []*os.File{in, out}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = in.Close(), out.Close() // Chromium has them
	b := &tab{t: t, to: to, from: bufio.NewReader(from)}
	t.Cleanup(func() {
		b.session = ""
		b.call("Browser.close", nil)
		_ = cmd.Wait()
		_, _ = to.Close(), from.Close()
	})
	target := b.call("Target.createTarget", map[string]any{"url": "about:blank"})["targetId"]
	b.session, _ = b.call("Target.attachToTarget", map[string]any{"targetId": target, "flatten": true})["sessionId"].(string)
	b.call("Log.enable", nil)
	b.call("Runtime.enable", nil)
	b.call("Page.enable", nil)
	b.call("Page.navigate", map[string]any{"url": address})
	b.eval(`new Promise(done => { const look = () => document.querySelector("main") ? done() : setTimeout(look, 20); look(); })`)
	return b
}

// call calls a method of the protocol.
func (b *tab) call(method string, params map[string]any) map[string]any {
	b.t.Helper()
	b.asked++
	message := map[string]any{"id": b.asked, "method": method, "params": params}
	if params == nil {
		delete(message, "params")
	}
	if b.session != "" {
		message["sessionId"] = b.session
	}
	text, err := json.Marshal(message)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.to.Write(append(text, 0)); err != nil {
		b.t.Fatal(err)
	}
	for {
		text, err := b.from.ReadBytes(0)
		if err != nil {
			b.t.Fatalf("%s: %v", method, err)
		}
		var got struct {
			ID     int            `json:"id"`
			Method string         `json:"method"`
			Result map[string]any `json:"result"`
			Error  any            `json:"error"`
			Params struct {
				Entry   struct{ Level, Text string } `json:"entry"`
				Details any                          `json:"exceptionDetails"`
			} `json:"params"`
		}
		if err := json.Unmarshal(text[:len(text)-1], &got); err != nil {
			b.t.Fatal(err)
		}
		switch {
		case got.Method == "Log.entryAdded" && got.Params.Entry.Level == "error":
			b.errors = append(b.errors, got.Params.Entry.Text)
		case got.Method == "Runtime.exceptionThrown":
			b.errors = append(b.errors, fmt.Sprint(got.Params.Details))
		case got.ID == b.asked && got.Error != nil:
			b.t.Fatalf("%s: %v", method, got.Error)
		case got.ID == b.asked:
			return got.Result
		}
	}
}

// eval evaluates an expression in the page. A promise is waited for.
func (b *tab) eval(expression string) any {
	b.t.Helper()
	result := b.call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true})
	if wrong, failed := result["exceptionDetails"]; failed {
		b.t.Fatalf("%.200s: %v", expression, wrong)
	}
	value, _ := result["result"].(map[string]any)
	return value["value"]
}

// press presses the tabulator key.
func (b *tab) press() {
	for _, kind := range []string{"rawKeyDown", "keyUp"} {
		b.call("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9})
	}
}

// contrasts finds texts that are hard to read: those with less than 4.5 to 1 on their ground.
const contrasts = `(() => {
  const rgb = c => c.match(/[\d.]+/g).map(Number);
  const light = c => { const [r, g, b] = c.map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
  const ground = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
  const bad = [];
  for (const e of document.querySelectorAll("body *:not(script)")) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    const [a, b] = [light(rgb(getComputedStyle(e).color).slice(0, 3)), light(ground(e).slice(0, 3))];
    if ((Math.max(a, b) + .05) / (Math.min(a, b) + .05) < 4.5) bad.push(e.outerHTML.slice(0, 100));
  }
  return bad.join("\n");
})()`

// The page in Chromium: in both themes, with a keyboard alone, and while what it shows changes. With AXE_CORE, the file
// axe.min.js of https://github.com/dequelabs/axe-core, axe finds nothing either.
func TestChromium(t *testing.T) {
	var ready atomic.Bool
	p := page.New(func() any {
		s := busy()
		if s.Ready = ready.Load(); !s.Ready {
			s.NotReady = "not yet"
		}
		s.ZonalShift = &steering.ZonalShiftStatus{Source: "a file"}
		return s
	})
	server := httptest.NewServer(p)
	defer server.Close()
	defer p.Close()
	b := openTab(t, server.URL)
	dark := map[string]bool{}
	for _, theme := range []string{"light", "dark"} {
		b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": theme}}})
		dark[theme] = b.eval(`getComputedStyle(document.body).backgroundColor.match(/\d+/g).every(c => c < 64)`) == true
		if bad := b.eval(contrasts); bad != "" {
			t.Errorf("%s, hard to read: %s", theme, bad)
		}
		b.axe(theme)
	}
	if dark["light"] || !dark["dark"] {
		t.Errorf("dark: %v", dark)
	}
	b.keyboard()

	// What changes is shown, in the same document, and what has the focus keeps it.
	b.eval(`document.getElementById("state-table").focus(); window.same = true`)
	if title := b.eval(`document.title`); !strings.Contains(title.(string), "not ready") {
		t.Errorf("title %v", title)
	}
	ready.Store(true)
	b.eval(`new Promise(done => { const look = () => document.title.includes("not ready") ? setTimeout(look, 20) : done(); look(); })`)
	if after := b.eval(`[window.same, document.activeElement.id, document.getElementById("live").textContent,
		document.querySelectorAll("main").length, document.querySelector("#state b").className].join()`); after !=
		"true,state-table,Updates by itself.,1,good" {
		t.Errorf("after a change: %v", after)
	}
	b.axe("after a change")
	if len(b.errors) > 0 {
		t.Errorf("console: %q", b.errors)
	}
}

// keyboard goes through the page by the tabulator key: every link and every table that may scroll is reached, in order, and
// shows that it has the focus.
func (b *tab) keyboard() {
	b.t.Helper()
	want := b.eval(`[...document.querySelectorAll("a, [tabindex]")].map(e => e.id || e.textContent).join()`)
	var reached []string
	for range strings.Count(fmt.Sprint(want), ",") + 1 {
		b.press()
		reached = append(reached, fmt.Sprint(b.eval(`document.activeElement.id || document.activeElement.textContent`)))
		if outline := b.eval(`getComputedStyle(document.activeElement).outlineStyle`); outline == "none" {
			b.t.Errorf("%s shows no focus", reached[len(reached)-1])
		}
	}
	if got := strings.Join(reached, ","); got != want {
		b.t.Errorf("the keyboard reaches %s, want %s", got, want)
	}
}

// axe runs axe-core, if there is one.
func (b *tab) axe(when string) {
	b.t.Helper()
	file := os.Getenv("AXE_CORE")
	if file == "" {
		return
	}
	source, err := os.ReadFile(file)
	if err != nil {
		b.t.Fatal(err)
	}
	b.eval(string(source) + "; 0")
	found := b.eval(`axe.run().then(r => r.violations.map(v => v.id + ": " + v.nodes.map(n => n.html.slice(0, 120)).join(" | ")).join("\n"))`)
	if found != "" {
		b.t.Errorf("axe, %s: %v", when, found)
	}
}
