package printing

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// The values of --color. Auto means colours on a terminal, unless NO_COLOR is set or the terminal is dumb.
const auto, always, never = "auto", "always", "never"

// AddColor adds the flag --color to a command and those below it.
func AddColor(cmd *cobra.Command) {
	(&choice{auto, "when", []string{auto, always, never}}).addTo(cmd, cmd.PersistentFlags(), "color", "", "when to use colours: ")
}

// colors reports whether output of a command to w may have colours.
func colors(cmd *cobra.Command, w io.Writer) bool {
	switch f := cmd.Flag("color"); {
	case f != nil && f.Value.String() == always:
		return true
	case f != nil && f.Value.String() == never:
		return false
	}
	return TakesCodes(w) && os.Getenv("NO_COLOR") == ""
}

// choice is a flag that takes one of some words.
type choice struct {
	value, kind string
	allowed     []string
}

func (c *choice) addTo(cmd *cobra.Command, flags *pflag.FlagSet, name, short, usage string) {
	flags.VarP(c, name, short, usage+strings.Join(c.allowed, ", "))
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(c.allowed,
		cobra.ShellCompDirectiveNoFileComp)) // fails only for an unknown flag
}

func (c *choice) String() string { return c.value }

func (c *choice) Type() string { return c.kind }

func (c *choice) Set(s string) error {
	if !slices.Contains(c.allowed, s) {
		return fmt.Errorf("must be one of %s", strings.Join(c.allowed, ", "))
	}
	c.value = s
	return nil
}

// TakesCodes reports whether w is a terminal that supports ANSI codes.
func TakesCodes(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// Width returns the width of the terminal w in columns; 0 if w is not a terminal or does not
// support ANSI codes.
func Width(w io.Writer) int {
	if !TakesCodes(w) {
		return 0
	}
	const usual = 80
	if f, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return usual
}

// Codes of ANSI terminals.
const (
	bold   = "1"
	yellow = "33"
)

func (p *Printer) paint(code, text string) string {
	if !p.color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
