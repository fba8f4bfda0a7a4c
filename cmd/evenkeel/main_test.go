package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
)

// The exit code says what kind of thing went wrong.
func TestExitCodes(t *testing.T) {
	const good = "apiVersion: evenkeel.dev/v1alpha1\nkind: NodeGroupSplit\nspec: {nodes: 9, groups: [{name: a, size: 1, max: 2}]}\n"
	for _, tc := range []struct {
		name, args, stdin string
		want              int
	}{
		{"an answer", "plan -f -", good, exitSuccess},
		{"help", "--help", "", exitSuccess},
		{"a missing file", "plan -f missing.yaml", "", exitUsage},
		{"an invalid document", "plan -f -", strings.Replace(good, "9", "-9", 1), exitUsage},
		{"an empty document", "plan -f -", "", exitUsage},
		{"an unknown flag", "plan --fast", "", exitUsage},
		{"an unknown command", "fly", "", exitUsage},
		{"no file", "plan", "", exitUsage},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), strings.Fields(tc.args), strings.NewReader(tc.stdin), &stdout, &stderr)
			if code != tc.want {
				t.Errorf("exit code %d, want %d; stderr: %s", code, tc.want, &stderr)
			}
			if (code == exitSuccess) == (stdout.Len() == 0) || (code == exitSuccess) != (stderr.Len() == 0) {
				t.Errorf("stdout: %s\nstderr: %s", &stdout, &stderr)
			}
		})
	}
}

func TestFailingOutputIsAFailure(t *testing.T) {
	var stderr bytes.Buffer
	if code := run(t.Context(), []string{"version"}, nil, failing{}, &stderr); code != exitFailure ||
		stderr.String() != "error: no space left\n" {
		t.Errorf("exit code %d, stderr %q", code, &stderr)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// What a signal ends exits as a shell expects it.
func TestSignalsAreToldByTheExitCode(t *testing.T) {
	for s, want := range map[os.Signal]int{os.Interrupt: 130, syscall.SIGTERM: 143} {
		ctx, stop := context.WithCancelCause(t.Context())
		stop(signalled{s})
		stdin, keyboard := io.Pipe()
		var stderr bytes.Buffer
		if got := run(ctx, []string{"plan", "-f", "-"}, stdin, io.Discard, &stderr); got != want || stderr.String() != "error: interrupted\n" {
			t.Errorf("%s: exit code %d, want %d; stderr %q", s, got, want, &stderr)
		}
		_ = keyboard.Close()
	}
}

// A program that waits for standard input stops on a signal.
func TestInterruptEndsWaitingForInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		stdin, keyboard := io.Pipe()
		var stderr bytes.Buffer
		code := make(chan int)
		go func() { code <- run(ctx, []string{"plan", "-f", "-"}, stdin, io.Discard, &stderr) }()
		synctest.Wait()
		interrupt()
		if got := <-code; got != exitFailure || stderr.String() != "error: interrupted\n" {
			t.Errorf("exit code %d, stderr %q", got, &stderr)
		}
		_ = keyboard.Close() // ends the read that nobody waits for
	})
}

// What only computes ends within a second of a signal, though it does not notice it.
func TestSignalEndsWhatOnlyComputes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancelCause(t.Context())
		compute, result := make(chan struct{}), errors.New("computed")
		cmd := &cobra.Command{RunE: promptly(func(*cobra.Command, []string) error { <-compute; return result }), SilenceErrors: true,
			SilenceUsage: true}
		cmd.SetArgs(nil)
		time.AfterFunc(time.Minute, func() { stop(signalled{os.Interrupt}) })
		begin := time.Now()
		if err := cmd.ExecuteContext(ctx); !errors.Is(err, context.Canceled) || time.Since(begin) > time.Minute+time.Second {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
		close(compute)
		synctest.Wait()
		if err := cmd.ExecuteContext(ctx); !errors.Is(err, result) {
			t.Errorf("what ended before the signal was acted on gave %v", err)
		}
	})
}

// cutOff is a context that ends after it was asked a number of times.
type cutOff struct {
	context.Context
	left *atomic.Int32
}

func (c cutOff) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// What an interrupted run has reached so far is on the page, too.
func TestInterruptedRunWritesThePage(t *testing.T) {
	var left atomic.Int32
	left.Store(20)
	name := filepath.Join(t.TempDir(), "page.html")
	var stderr bytes.Buffer
	got := run(cutOff{context.Background(), &left}, []string{"simulate", "zone-outage", "--report", name}, strings.NewReader(""), io.Discard,
		&stderr)
	page, err := os.ReadFile(name)
	if got != exitFailure || err != nil || !strings.Contains(string(page), "arrived") {
		t.Errorf("exit code %d, stderr %q, page of %d bytes: %v", got, &stderr, len(page), err)
	}
}
