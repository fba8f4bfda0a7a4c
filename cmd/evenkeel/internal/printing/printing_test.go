package printing

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// printer makes one as a command with arguments does.
func printer(t *testing.T, out io.Writer, args ...string) *Printer {
	t.Helper()
	var f Flags
	cmd := &cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error { return nil }}
	AddColor(cmd)
	f.AddTo(cmd, Table, Wide, JSON, YAML)
	cmd.SetArgs(args)
	cmd.SetOut(out)
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	return f.Printer(cmd)
}

// report prints a result of every kind of part.
func report(p *Printer) error {
	grid := Grid{Columns: Columns("NAME", "SIZE", "", "ZONE"), Rows: [][]string{{"a", "1", "z"}, {"long\tname\n", "", "y"}}}
	return p.Print(
		Heading("First"), grid, Warning("look here"), Note("by the way"),
		Heading("Second"), Grid{Columns: grid.Columns}, grid, grid,
	)
}

func TestTables(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"table", nil, "First\nNAME           SIZE\na              1\nlong\\tname\\n   <none>\nlook here\nby the way\n\n" +
			"Second\nNAME           SIZE\na              1\nlong\\tname\\n   <none>\n\nNAME           SIZE\na              " +
			"1\nlong\\tname\\n   <none>\n"},
		{"no headers", []string{"--no-headers", "--color=always"}, "a              1\nlong\\tname\\n   <none>\n\n" +
			"a              1\nlong\\tname\\n   <none>\n\na              1\nlong\\tname\\n   <none>\n"},
		{"wide, in colour", []string{"-o", "wide", "--color=always"},
			"\x1b[1mFirst\x1b[0m\nNAME           SIZE     ZONE\na              1        z\nlong\\tname\\n   <none>   y\n" +
				"\x1b[33mlook here\x1b[0m\nby the way\n\n\x1b[1mSecond\x1b[0m\nNAME           SIZE     ZONE\na              1       " +
				" z\nlong\\tname\\n   <none>   y\n\n" +
				"NAME           SIZE     ZONE\na              1        z\nlong\\tname\\n   <none>   y\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			p := printer(t, &out, tc.args...)
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
		p := printer(t, &out, "-o", format, "--color=always")
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
		if err := report(printer(t, failing{broken}, "-o", format)); !errors.Is(err, broken) {
			t.Errorf("%s: got %v", format, err)
		}
	}
	if err := printer(t, failing{broken}, "-o", "json").Object(1); !errors.Is(err, broken) {
		t.Errorf("json: got %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestColor(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	for text, want := range map[string]bool{"auto": false, "always": true, "never": false} { // a buffer is no terminal
		if got := printer(t, &bytes.Buffer{}, "--color", text).color; got != want {
			t.Errorf("%s: got %v", text, got)
		}
	}
	if (&choice{allowed: []string{auto}}).Set("sometimes") == nil {
		t.Error("took a mode that does not exist")
	}
}
