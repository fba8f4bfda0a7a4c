package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	prompt       = "$ "
	ellipsis     = "..."
	echoExitCode = prompt + "echo $?"
)

// page is a page of markdown.
type page struct {
	name  string
	lines []string
}

func readPage(t *testing.T, name string) *page {
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return &page{name, strings.Split(string(text), "\n")}
}

func (p *page) write(t *testing.T) {
	if err := os.WriteFile(p.name, []byte(strings.Join(p.lines, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
}

// block is the lines from..to-1 of a page, inside a fence.
type block struct {
	language string
	from, to int
}

func (p *page) fences() []block {
	var all []block
	open := false
	for i, line := range p.lines {
		fence, ok := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case !ok:
		case open:
			all[len(all)-1].to = i
			open = false
		default:
			all = append(all, block{language: fence, from: i + 1, to: len(p.lines)})
			open = true
		}
	}
	return all
}

func (p *page) blocks(language string) []block {
	return slices.DeleteFunc(p.fences(), func(b block) bool { return b.language != language })
}

// prose is the text without what stands inside fences.
func (p *page) prose() string {
	lines := slices.Clone(p.lines)
	for _, b := range p.fences() {
		clear(lines[b.from:b.to])
	}
	return strings.Join(lines, "\n")
}

// anchors are the names by which headings are linked, as GitHub makes them.
func (p *page) anchors() []string {
	noise := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	var all []string
	for _, line := range strings.Split(p.prose(), "\n") {
		if strings.HasPrefix(line, "#") {
			heading := strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#")))
			all = append(all, strings.ReplaceAll(noise.ReplaceAllString(heading, ""), " ", "-"))
		}
	}
	return all
}

// step is a command of a console block and the lines from..to-1 that it prints.
// With exitCode the last of these show its exit code.
type step struct {
	command  string
	from, to int
	exitCode bool
}

func (b block) steps(p *page) []step {
	var steps []step
	for i := b.from; i < b.to; i++ {
		line := p.lines[i]
		switch {
		case line == echoExitCode && len(steps) > 0:
			steps[len(steps)-1].exitCode = true
			steps[len(steps)-1].to = i + 1
		case strings.HasPrefix(line, prompt):
			steps = append(steps, step{command: strings.TrimPrefix(line, prompt), from: i + 1, to: i + 1})
		case len(steps) > 0:
			steps[len(steps)-1].to = i + 1
		}
	}
	return steps
}

func linesOf(text string) []string {
	text = strings.TrimRight(text, "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// shows reports whether the lines shown are those printed, but for what an
// ellipsis stands for. Blank lines at the end do not count.
func shows(shown, printed []string) bool {
	for len(shown) > 0 && shown[len(shown)-1] == "" {
		shown = shown[:len(shown)-1]
	}
	at := slices.Index(shown, ellipsis)
	if at < 0 {
		return slices.Equal(shown, printed)
	}
	if len(printed) < at || !slices.Equal(shown[:at], printed[:at]) {
		return false
	}
	for from := at; from <= len(printed); from++ {
		if shows(shown[at+1:], printed[from:]) {
			return true
		}
	}
	return false
}
