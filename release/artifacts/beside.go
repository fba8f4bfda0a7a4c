package artifacts

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// completions are the shells and the names under which each looks for a file.
var completions = []struct{ shell, file string }{
	{"bash", "evenkeel.bash"}, {"fish", "evenkeel.fish"}, {"powershell", "evenkeel.ps1"}, {"zsh", "_evenkeel"},
}

// besideProgram returns what every archive has beside the program. Completions and manual are written by the program itself, so
// one of the programs must run on this machine.
func besideProgram(options Options, programs []program) ([]file, error) {
	var files []file
	for _, name := range []string{"LICENSE", "README.md"} {
		content, err := os.ReadFile(filepath.Join(options.Source, name))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name, 0o644, content})
	}
	var here string
	for _, p := range programs {
		if p.os == runtime.GOOS && p.arch == runtime.GOARCH {
			here = p.name
		}
	}
	if here == "" {
		return nil, fmt.Errorf("no program for %s/%s among Binaries: add one, as it writes completions and manual", runtime.GOOS, runtime.GOARCH)
	}
	for _, c := range completions {
		content, err := output(here, "completion", c.shell)
		if err != nil {
			return nil, err
		}
		files = append(files, file{"completions/" + c.file, 0o644, content})
	}
	pages, err := os.MkdirTemp("", "evenkeel-man-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(pages)
	if _, err := output(here, "man", pages); err != nil {
		return nil, err
	}
	manual, err := folder(pages, "man/man1")
	return append(files, manual...), err
}

// output returns what a program prints.
func output(name string, args ...string) ([]byte, error) {
	content, err := exec.Command(name, args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("%s %q: %w: %s", name, args, err, exit.Stderr)
	}
	return content, err
}
