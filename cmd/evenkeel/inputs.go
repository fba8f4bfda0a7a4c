package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/evenkeel/evenkeel/internal/document"
)

// inputs opens the files that a command names. Opening and reading end when the program is interrupted.
type inputs struct {
	ctx   context.Context
	stdin io.Reader
}

func inputsOf(cmd *cobra.Command) inputs { return inputs{cmd.Context(), cmd.InOrStdin()} }

// open opens a file by name; "-" and /dev/stdin are standard input.
func (in inputs) open(name string) (io.ReadCloser, error) {
	if name == "-" || name == "/dev/stdin" {
		return io.NopCloser(in.stdin), nil
	}
	return in.file(name)
}

// file opens a file. A named pipe opens only when somebody writes to it.
func (in inputs) file(name string) (io.ReadCloser, error) {
	if info, err := os.Stat(name); err != nil || info.Mode().IsRegular() || info.IsDir() {
		return os.Open(name)
	}
	opened := make(chan *os.File, 1)
	err := interruptibly(in.ctx, func() error {
		f, err := os.Open(name)
		opened <- f
		return err
	})
	if err != nil {
		return nil, err
	}
	f := <-opened
	return struct {
		io.Reader
		io.Closer
	}{&interruptible{ctx: in.ctx, in: f}, f}, nil
}

// beside opens files by names relative to the folder of another file, or to the working directory if that is no place
// for files, as in <(…).
func (in inputs) beside(file string) document.Open {
	folder := filepath.Dir(file)
	if strings.HasPrefix(folder, "/dev") || strings.HasPrefix(folder, "/proc") {
		folder = "."
	}
	return func(name string) (io.ReadCloser, error) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(folder, name)
		}
		return in.file(name)
	}
}
