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

// Format is a value of the flag -o.
type Format string

// The formats. Wide is a table with more columns, and Name is one name for each object.
const (
	Table Format = "table"
	Wide  Format = "wide"
	JSON  Format = "json"
	YAML  Format = "yaml"
	Name  Format = "name"
)

// Flags are the flags of a command that prints results. The zero value is ready for AddTo.
type Flags struct {
	format    formatValue
	noHeaders bool
}

// AddTo adds -o and --no-headers to a command. The first format is the default.
func (f *Flags) AddTo(cmd *cobra.Command, formats ...Format) {
	f.format = formatValue{Format: formats[0], allowed: formats}
	names := f.format.names()
	cmd.Flags().VarP(&f.format, "output", "o", "how to print: "+strings.Join(names, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)) // returns an error only for an unknown flag
	if slices.Contains(formats, Table) {
		cmd.Flags().BoolVar(&f.noHeaders, "no-headers", false, "print only the rows of tables")
	}
}

// Printer makes a printer that writes results to out; color determines whether tables may have
// colours.
func (f *Flags) Printer(out io.Writer, color bool) *Printer {
	return &Printer{out: out, format: f.format.Format, noHeaders: f.noHeaders, color: color}
}

// formatValue is a flag that accepts only the allowed formats.
type formatValue struct {
	Format
	allowed []Format
}

func (v *formatValue) names() []string {
	names := make([]string, len(v.allowed))
	for i, f := range v.allowed {
		names[i] = string(f)
	}
	return names
}

func (v *formatValue) String() string { return string(v.Format) }

func (v *formatValue) Type() string { return "format" }

func (v *formatValue) Set(s string) error {
	if !slices.Contains(v.allowed, Format(s)) {
		return fmt.Errorf("must be one of %s", strings.Join(v.names(), ", "))
	}
	v.Format = Format(s)
	return nil
}

// A Part is a piece of a result: a Heading, a Grid, a Note or a Warning.
type Part interface{ print(p *Printer) error }

// Heading is a line that names what follows it.
type Heading string

// Note is a sentence below a table.
type Note string

// Warning is a note that needs attention, and is highlighted.
type Warning string

// A Grid is a table: upper-case column names, and rows with a cell for each column.
type Grid struct {
	Columns []Column
	Rows    [][]string
}

func (h Heading) print(p *Printer) error { return p.Heading(string(h)) }
func (n Note) print(p *Printer) error    { return p.Note(false, string(n)) }
func (w Warning) print(p *Printer) error { return p.Note(true, string(w)) }
func (g Grid) print(p *Printer) error    { return p.Grid(g) }

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
	format    Format
	noHeaders bool
	color     bool
	begun     bool
}

// Print prints the parts of a result.
func (p *Printer) Print(parts ...Part) error {
	for _, part := range parts {
		if err := part.print(p); err != nil {
			return err
		}
	}
	return nil
}

// Result prints a result: its parts as tables, or else the object.
func (p *Printer) Result(object any, parts ...Part) error {
	if p.Tables() {
		return p.Print(parts...)
	}
	return p.Object(object)
}

// Tables reports whether to print the result as tables, rather than with Object.
func (p *Printer) Tables() bool { return p.format == Table || p.format == Wide }

// Names reports whether to print only the names of objects.
func (p *Printer) Names() bool { return p.format == Name }

// Wide reports whether tables also show wide columns.
func (p *Printer) Wide() bool { return p.format == Wide }

// Heading begins a part with a line that names it. With --no-headers it prints only the blank line
// before it.
func (p *Printer) Heading(text string) error {
	err := p.separate()
	if err == nil && !p.noHeaders {
		err = p.line(p.paint(bold, text))
	}
	p.begun = false // the table follows directly
	return err
}

// Grid prints a table. One without rows prints nothing.
func (p *Printer) Grid(g Grid) error {
	if len(g.Rows) == 0 {
		return nil
	}
	if err := p.separate(); err != nil {
		return err
	}
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
	if err := w.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) {
		if _, err := io.WriteString(p.out, strings.TrimRight(line, " \n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// Note prints a sentence below a table, highlighted if it needs attention. Notes are omitted with
// --no-headers: they are for human readers, and rows are for programs.
func (p *Printer) Note(attention bool, text string) error {
	if p.noHeaders {
		return nil
	}
	if attention {
		text = p.paint(yellow, text)
	}
	return p.line(text)
}

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

func (p *Printer) separate() error {
	if p.begun {
		return p.line("")
	}
	p.begun = true
	return nil
}

func (p *Printer) line(text string) error {
	p.begun = p.begun || text != ""
	_, err := io.WriteString(p.out, text+"\n")
	return err
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
