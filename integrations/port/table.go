package main

import (
	"fmt"
	"strings"
)

// A table says what is different in the module that is written.
type table struct {
	imports []rewrite
	edits   []edit
	added   []edit // files that the other module does not have
}

// A rewrite is for the import paths that are from or lie below it. Of several the first one counts.
type rewrite struct{ from, to string }

// An edit replaces lines that occur exactly once in a file; one that does not apply is out of date.
type edit struct {
	file     string
	old, new string // whole lines
	whole    bool   // the file is new
}

// parseTable reads a table: lines "import FROM TO", and "edit FILE" followed by the lines that go,
// each after "-", and the lines that come instead, each after "+"; and "add FILE" followed by the
// lines of a new file, each after "+". A line that begins with "#" is a comment. Errors begin with
// the number of the line.
func parseTable(text string) (table, error) {
	var t table
	var open *edit
	for i, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		switch {
		case open.takes(line):
		case len(fields) == 0 || strings.HasPrefix(line, "#"):
			open = nil
		case fields[0] == "import" && len(fields) == 3:
			open = nil
			t.imports = append(t.imports, rewrite{from: fields[1], to: fields[2]})
		case fields[0] == "edit" && len(fields) == 2:
			t.edits = append(t.edits, edit{file: fields[1]})
			open = &t.edits[len(t.edits)-1]
		case fields[0] == "add" && len(fields) == 2:
			t.added = append(t.added, edit{file: fields[1], whole: true})
			open = &t.added[len(t.added)-1]
		default:
			return table{}, fmt.Errorf("%d: %q is none of \"import FROM TO\", \"edit FILE\" or \"add FILE\", \"-LINE\" and \"+LINE\" after it", i+1, line)
		}
	}
	return t, t.check()
}

// takes adds a line to an edit, if it is one of it.
func (e *edit) takes(line string) bool {
	switch {
	case e == nil:
		return false
	case strings.HasPrefix(line, "-") && e.new == "" && !e.whole:
		e.old += line[1:] + "\n"
	case strings.HasPrefix(line, "+") && (e.old != "" || e.whole):
		e.new += line[1:] + "\n"
	default:
		return false
	}
	return true
}

// check refuses edits without lines.
func (t table) check() error {
	for _, e := range t.edits {
		if e.old == "" {
			return fmt.Errorf(" edit %s: no line to replace: add one that begins with \"-\"", e.file)
		}
	}
	for _, e := range t.added {
		if e.new == "" {
			return fmt.Errorf(" add %s: no line of it: add some that begin with \"+\"", e.file)
		}
	}
	return nil
}

// path is the import path in place of the given one.
func (t table) path(imported string) string {
	for _, r := range t.imports {
		if rest, ok := strings.CutPrefix(imported, r.from); ok && (rest == "" || rest[0] == '/') {
			return r.to + rest
		}
	}
	return imported
}
