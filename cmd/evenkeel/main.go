// Command evenkeel keeps the nodes and replicas of a Kubernetes fleet even across its failure
// domains.
//
// It handles flags, documents and tables, and decides nothing itself.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/evenkeel/evenkeel/internal/document"
)

// Exit codes.
const (
	exitSuccess = 0
	exitFailure = 1 // an operation failed, or an expectation does not hold
	exitUsage   = 2 // wrong flags or arguments, or an invalid document
)

func main() {
	ctx, stop := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		s := <-signals
		signal.Stop(signals) // the second signal ends the program at once
		stop(signalled{s})
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// signalled is the signal that stops the program.
type signalled struct{ os.Signal }

func (s signalled) Error() string { return s.String() }

// Is implements the match with context.Canceled.
func (s signalled) Is(err error) bool { return err == context.Canceled }

// interruptedCode is the exit code of a program that was stopped by a signal, as a shell reports
// it: 128 plus the number of the signal.
func interruptedCode(ctx context.Context) int {
	var s signalled
	if errors.As(context.Cause(ctx), &s) {
		if number, ok := s.Signal.(syscall.Signal); ok {
			return 128 + int(number)
		}
	}
	return exitFailure
}

// run runs the program and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root, started := newRoot()
	root.SetArgs(args)
	root.SetIn(&interruptible{ctx: ctx, in: stdin})
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitSuccess
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintln(stderr, "error: interrupted")
		return interruptedCode(ctx)
	}
	if !*started {
		err = &usageError{err, fmt.Sprintf("see %q", cmd.CommandPath()+" --help")}
	}
	return report(stderr, cmd, err)
}

// A usageError is an error in flags or arguments.
type usageError struct {
	err  error
	hint string
}

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

// report prints an error, one line for each problem, and returns its exit code.
func report(stderr io.Writer, cmd *cobra.Command, err error) int {
	var invalid *document.Invalid
	var usage *usageError
	switch {
	case errors.Is(err, errReported):
		return exitFailure
	case errors.As(err, &invalid):
		last := len(invalid.Problems) - 1
		for i, p := range invalid.Problems {
			hint := ""
			var large *document.TooLarge
			switch {
			case i == last && errors.As(err, &usage):
				hint = " (" + usage.hint + ")"
			case errors.As(p.Err, &large) && !large.Fixed && cmd.Flags().Lookup("max-file-size") != nil:
				hint = " (--max-file-size raises it)"
			case errors.Is(p.Err, document.ErrSnapshot):
				hint = " (name it with --snapshot or, in a scenario, with snapshot)"
			}
			fmt.Fprintf(stderr, "error: %s%s\n", oneLine(p.String()), hint)
		}
		return exitUsage
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "error: %s (%s)\n", oneLine(err.Error()), usage.hint)
		return exitUsage
	}
	fmt.Fprintf(stderr, "error: %s\n", oneLine(err.Error()))
	if isInput(err) { // a wrong file name
		return exitUsage
	}
	return exitFailure
}

// isInput reports whether an error is about a file that cannot be read, as opposed to one that
// cannot be written.
func isInput(err error) bool {
	var path *fs.PathError
	return errors.As(err, &path) && slices.Contains([]string{"open", "read", "stat"}, path.Op)
}

// errReported ends the program without a message, because the command has already printed it.
var errReported = errors.New("failed")

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// grace is how long what only computes may go on after a signal.
const grace = 500 * time.Millisecond

// promptly is the work of a command that only reads, computes and prints: a signal ends it soon, wherever it
// is, and there is nothing to undo.
func promptly(work func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		done := make(chan error, 1)
		go func() { done <- work(cmd, args) }()
		select {
		case err := <-done:
			return err
		case <-cmd.Context().Done():
		}
		select {
		case err := <-done:
			return err
		case <-time.After(grace):
			return context.Cause(cmd.Context())
		}
	}
}
