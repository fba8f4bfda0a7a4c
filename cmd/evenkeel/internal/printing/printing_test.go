package printing

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// flags parses arguments as a command would.
func flags(t *testing.T, args ...string) *Flags {
	t.Helper()
	var f Flags
	cmd := &cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error { return nil }}
	f.AddTo(cmd, Table, Wide, JSON, YAML)
	cmd.SetArgs(args)
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	return &f
}

// report prints a result of every kind of part.
func report(p *Printer) error {
	grid := Grid{Columns: Columns("NAME", "SIZE", "", "ZONE"), Rows: [][]string{{"a", "1", "z"}, {"long\tname\n", "", "y"}}}
	return errors.Join(
		p.Heading("First"), p.Grid(grid), p.Note(true, "look here"), p.Note(false, "by the way"),
		p.Heading("Second"), p.Grid(Grid{Columns: grid.Columns}), p.Grid(grid), p.Grid(grid),
	)
}

func TestTables(t *testing.T) {
	for _, tc := range []struct {
		name  string
		args  []string
		color bool
		want  string
	}{
		{"table", nil, false, "First\nNAME           SIZE\na              1\nlong\\tname\\n   <none>\nlook here\nby the way\n\n" +
			"Second\nNAME           SIZE\na              1\nlong\\tname\\n   <none>\n\nNAME           SIZE\na              1\nlong\\tname\\n   <none>\n"},
		{"no headers", []string{"--no-headers"}, true, "a              1\nlong\\tname\\n   <none>\n\n" +
			"a              1\nlong\\tname\\n   <none>\n\na              1\nlong\\tname\\n   <none>\n"},
		{"wide, in colour", []string{"-o", "wide"}, true, "\x1b[1mFirst\x1b[0m\nNAME           SIZE     ZONE\na              1        z\nlong\\tname\\n   <none>   y\n" +
			"\x1b[33mlook here\x1b[0m\nby the way\n\n\x1b[1mSecond\x1b[0m\nNAME           SIZE     ZONE\na              1        z\nlong\\tname\\n   <none>   y\n\n" +
			"NAME           SIZE     ZONE\na              1        z\nlong\\tname\\n   <none>   y\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			p := flags(t, tc.args...).Printer(&out, tc.color)
			if !p.Tables() {
				t.Error("no tables")
			}
			if err := report(p); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

func TestObject(t *testing.T) {
	v := struct {
		Name string `json:"name"`
		Age  int    `json:"age"`
		On   string `json:"on"`
	}{"<a>", 3, "yes"}
	for format, want := range map[string]string{
		"json": "{\n    \"name\": \"<a>\",\n    \"age\": 3,\n    \"on\": \"yes\"\n}\n",
		"yaml": "name: <a>\nage: 3\n\"on\": \"yes\"\n",
	} {
		var out bytes.Buffer
		p := flags(t, "-o", format).Printer(&out, true)
		if p.Tables() {
			t.Errorf("%s: tables", format)
		}
		if err := p.Object(v); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", format, diff)
		}
	}
}

func TestFailingOutput(t *testing.T) {
	broken := errors.New("broken pipe")
	for _, format := range []string{"table", "wide"} {
		if err := report(flags(t, "-o", format).Printer(failing{broken}, false)); !errors.Is(err, broken) {
			t.Errorf("%s: got %v", format, err)
		}
	}
	if err := flags(t, "-o", "json").Printer(failing{broken}, false).Object(1); !errors.Is(err, broken) {
		t.Errorf("json: got %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestColorMode(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	for text, want := range map[string]bool{"auto": false, "always": true, "never": false} { // a buffer is no terminal
		var m ColorMode
		if err := m.Set(text); err != nil {
			t.Fatal(err)
		}
		if got := m.Allows(&bytes.Buffer{}); got != want {
			t.Errorf("%s: got %v", text, got)
		}
	}
	var m ColorMode
	if err := m.Set("sometimes"); err == nil {
		t.Error("took a mode that does not exist")
	}
}
