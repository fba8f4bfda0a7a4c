// Package printing gives every command the same output: tables as kubectl prints them, or JSON
// and YAML of the same value.
//
// It knows formats, columns and terminals, but not the meaning of what is printed.
package printing

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/evenkeel/evenkeel/internal/document"
)

// The formats, which are the values of -o. Wide is a table with more columns, Name is one name for
// each object, and HTML is a page that the command writes by itself.
const (
	Table = "table"
	Wide  = "wide"
	JSON  = "json"
	YAML  = "yaml"
	Name  = "name"
	HTML  = "html"
)

// Flags are the flags of a command that prints results. The zero value is ready for AddTo.
type Flags struct {
	format    choice
	noHeaders bool
}

// AddTo adds -o and --no-headers to a command. The first format is the default.
func (f *Flags) AddTo(cmd *cobra.Command, formats ...string) {
	f.format = choice{formats[0], "format", formats}
	f.format.addTo(cmd, cmd.Flags(), "output", "o", "how to print: ")
	if slices.Contains(formats, Table) {
		cmd.Flags().BoolVar(&f.noHeaders, "no-headers", false, "print only the rows of tables")
	}
}

// Printer makes a printer of the results of a command.
func (f *Flags) Printer(cmd *cobra.Command) *Printer {
	out := cmd.OutOrStdout()
	return &Printer{out: out, format: f.format.value, noHeaders: f.noHeaders, color: colors(cmd, out)}
}

// A Part is a piece of a result: a Heading, a Grid, a Note or a Warning.
type Part interface{ print(p *Printer) }

// Heading is a line that names what follows it. With --no-headers it is only the blank line before it.
type Heading string

// Note is a sentence below a table. It is omitted with --no-headers: notes are for human readers, and
// rows are for programs.
type Note string

// Warning is a note that needs attention, and is highlighted.
type Warning string

// A Grid is a table: upper-case column names, and rows with a cell for each column. One without rows
// prints nothing.
type Grid struct {
	Columns []Column
	Rows    [][]string
}

// Column is one column of a Grid.
type Column struct {
	Name string
	Wide bool // shown only with -o wide
}

// Columns makes columns from names; columns after an empty name are wide.
func Columns(names ...string) []Column {
	var out []Column
	wide := false
	for _, name := range names {
		if name == "" {
			wide = true
			continue
		}
		out = append(out, Column{name, wide})
	}
	return out
}

// NewGrid makes a table without rows, with columns as by Columns.
func NewGrid(names ...string) Grid { return Grid{Columns: Columns(names...)} }

// GridOf makes a table with a row for each item, with its cells as for Add.
func GridOf[T any](columns []Column, items []T, cells func(*T) []any) Grid {
	g := Grid{Columns: columns}
	for i := range items {
		g.Add(cells(&items[i])...)
	}
	return g
}

// Add adds a row. A cell is a string, a number, a boolean, or a pointer to one; a nil pointer and an empty string are None.
func (g *Grid) Add(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		switch v := reflect.ValueOf(cell); {
		case v.Kind() != reflect.Pointer:
			row[i] = fmt.Sprint(cell)
		case !v.IsNil():
			row[i] = fmt.Sprint(v.Elem())
		}
	}
	g.Rows = append(g.Rows, row)
}

// None is the text of a cell without a value.
const None = "<none>"

// Printer writes the parts of a result one after another. Blank lines separate them.
type Printer struct {
	out       io.Writer
	format    string
	noHeaders bool
	color     bool
	begun     bool
	text      bytes.Buffer // not written yet
}

// Print prints the parts of a result.
func (p *Printer) Print(parts ...Part) error {
	for _, part := range parts {
		part.print(p)
	}
	_, err := p.text.WriteTo(p.out)
	return err
}

// Result prints a result: its parts as tables, or else the object.
func (p *Printer) Result(object any, parts ...Part) error {
	if p.Tables() {
		return p.Print(parts...)
	}
	return p.Object(object)
}

// All prints several results: as tables, one after the other, or as one object or a list of them. Each gets a title if there are
// several, unless title is nil: the parts of each then begin with a heading of their own.
func All[R any](p *Printer, results []R, title func(R) string, parts func(*Printer, R) []Part) error {
	if !p.Tables() && len(results) == 1 {
		return p.Object(results[0])
	}
	var all []Part
	for _, r := range results {
		if title != nil && len(results) > 1 {
			all = append(all, Heading(title(r)))
		}
		all = append(all, parts(p, r)...)
	}
	return p.Result(struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Items      []R    `json:"items"`
	}{"v1", "List", append([]R{}, results...)}, all...)
}

// Tables reports whether to print the result as tables, rather than with Object.
func (p *Printer) Tables() bool { return p.format == Table || p.format == Wide }

// Names reports whether to print only the names of objects.
func (p *Printer) Names() bool { return p.format == Name }

// HTML reports whether to print a page.
func (p *Printer) HTML() bool { return p.format == HTML }

// Wide reports whether tables also show wide columns.
func (p *Printer) Wide() bool { return p.format == Wide }

func (h Heading) print(p *Printer) {
	p.separate()
	if !p.noHeaders {
		p.line(p.paint(bold, string(h)))
	}
	p.begun = false // the table follows directly
}

func (g Grid) print(p *Printer) {
	if len(g.Rows) == 0 {
		return
	}
	p.separate()
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 6, 4, 3, ' ', 0) // as kubectl does
	var names []string
	var shown []int
	for i, c := range g.Columns {
		if !c.Wide || p.Wide() {
			names, shown = append(names, c.Name), append(shown, i)
		}
	}
	if !p.noHeaders {
		fmt.Fprintln(w, strings.Join(names, "\t"))
	}
	for _, row := range g.Rows {
		cells := make([]string, len(shown))
		for i, column := range shown {
			cells[i] = cell(row[column])
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush() // a buffer takes all
	for line := range strings.Lines(b.String()) {
		p.line(strings.TrimRight(line, " \n"))
	}
}

func (n Note) print(p *Printer) {
	if !p.noHeaders {
		p.line(string(n))
	}
}

func (w Warning) print(p *Printer) { Note(p.paint(yellow, string(w))).print(p) }

// Object prints a value as JSON or YAML, with fields in the order in which the value encodes them.
func (p *Printer) Object(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "    ")
	if err := e.Encode(v); err != nil {
		return err
	}
	out := b.Bytes()
	if p.format == YAML {
		var err error
		if out, err = document.ToYAML(out); err != nil {
			return err
		}
	}
	_, err := p.out.Write(out)
	return err
}

// List prints a list with a row for each of its objects, or the sentence to notes if there is none.
func (p *Printer) List(notes io.Writer, object any, grid Grid, none string) error {
	if p.Tables() && len(grid.Rows) == 0 && none != "" {
		fmt.Fprintln(notes, none)
	}
	return p.Result(object, grid)
}

func (p *Printer) separate() {
	if p.begun {
		p.line("")
	}
	p.begun = true
}

func (p *Printer) line(text string) {
	p.begun = p.begun || text != ""
	p.text.WriteString(text + "\n")
}

// cell formats a value on one line: characters that would break the table are escaped.
func cell(s string) string {
	switch {
	case s == "":
		return None
	case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return strings.Trim(fmt.Sprintf("%q", s), `"`)
	}
	return s
}
