package printing

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// ColorMode is a value of the flag --color.
type ColorMode string

// The modes. Auto means colours on a terminal, unless NO_COLOR is set or the terminal is dumb.
const (
	Auto   ColorMode = "auto"
	Always ColorMode = "always"
	Never  ColorMode = "never"
)

// String returns the mode as written on the command line; with Type and Set it implements a flag.
func (m *ColorMode) String() string { return string(*m) }

// Type returns the name of the flag's value in help.
func (m *ColorMode) Type() string { return "when" }

// Set accepts one of the modes.
func (m *ColorMode) Set(s string) error {
	switch mode := ColorMode(s); mode {
	case Auto, Always, Never:
		*m = mode
		return nil
	}
	return fmt.Errorf("must be one of %s, %s, %s", Auto, Always, Never)
}

// Allows reports whether output to w may have colours.
func (m *ColorMode) Allows(w io.Writer) bool {
	switch *m {
	case Always:
		return true
	case Never:
		return false
	default:
		return TakesCodes(w) && os.Getenv("NO_COLOR") == ""
	}
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
