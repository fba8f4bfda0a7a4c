package main

import (
	"context"
	"errors"
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
	switch name {
	case "":
		return nil, &usageError{errors.New("the name of a file is empty"), "name a file, or - for standard input"}
	case "-", "/dev/stdin":
		return io.NopCloser(in.stdin), nil
	}
	return in.file(name)
}

// file opens a file. A named pipe opens only when somebody writes to it.
func (in inputs) file(name string) (io.ReadCloser, error) {
	if info, err := os.Stat(name); err != nil || info.Mode().IsRegular() || info.IsDir() {
		return os.Open(name)
	}
	f, err := await(in.ctx, func() (*os.File, error) { return os.Open(name) })
	if err != nil {
		return nil, err
	}
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

// await waits for work that does not take a context. If the program is interrupted, it returns at once, and the work ends with
// the process.
func await[T any](ctx context.Context, work func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := work()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// interruptibly is await for work that returns nothing else than an error.
func interruptibly(ctx context.Context, work func() error) error {
	_, err := await(ctx, func() (struct{}, error) { return struct{}{}, work() })
	return err
}

// interruptible is an input that stops waiting when the program is interrupted.
type interruptible struct {
	ctx context.Context
	in  io.Reader
}

// Read reads into a buffer of its own, because a read of a terminal cannot be cancelled.
func (r *interruptible) Read(p []byte) (int, error) {
	buffer := make([]byte, len(p))
	n, err := await(r.ctx, func() (int, error) { return r.in.Read(buffer) })
	return copy(p, buffer[:n]), err
}
