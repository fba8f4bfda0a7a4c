package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const (
	splitOfNine  = "apiVersion: evenkeel.dev/v1alpha1\nkind: NodeGroupSplit\nspec: {nodes: 9, groups: [{name: a, size: 1, max: 20}]}\n"
	oneNode      = "apiVersion: v1\nkind: Node\nmetadata: {name: n, labels: {pool: a}}\nstatus: {capacity: {cpu: 2, memory: 8Gi, pods: 10}}\n"
	emptyCluster = "apiVersion: evenkeel.dev/v1alpha1\nkind: Scenario\nmetadata: {name: s}\nspec: {nodeGroups: [{name: a, " +
		"max: 3, template: {status: {capacity: {cpu: 2, memory: 8Gi, pods: 10}}}}]}\n"
)

// namedPipe is a pipe with a name, into which a text is written once.
func namedPipe(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		if f, err := os.OpenFile(name, os.O_WRONLY, 0); err == nil {
			_, _ = io.WriteString(f, text)
			_ = f.Close()
		}
	}()
	return name
}

func compressed(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = io.WriteString(w, text)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Every command that reads files reads pipes, which can be opened once, and compressed text.
func TestPipesAndCompressedText(t *testing.T) {
	for _, tc := range []struct{ args, text string }{
		{"plan -f", splitOfNine},
		{"simulate -f", emptyCluster},
		{"explain -f", emptyCluster},
		{"scenario from-dump --group-label pool -f", oneNode},
		{"explain --group-label pool --nodes", oneNode},
	} {
		for how, text := range map[string]string{"plain": tc.text, "gzip": compressed(t, tc.text)} {
			for _, name := range []string{namedPipe(t, text), "/dev/stdin", "-"} {
				var stdout, stderr bytes.Buffer
				code := run(t.Context(), append(strings.Fields(tc.args), name), strings.NewReader(text), &stdout, &stderr)
				if code != exitSuccess || stdout.Len() == 0 {
					t.Errorf("%s %s (%s): exit code %d; stderr: %s", tc.args, name, how, code, &stderr)
				}
			}
		}
	}
}

// A program that waits for somebody to write into a pipe stops on the first signal.
func TestInterruptEndsWaitingForAPipe(t *testing.T) {
	for _, args := range []string{"plan -f", "simulate -f", "explain -f", "explain --group-label pool --nodes", "scenario from-dump -f"} {
		name := filepath.Join(t.TempDir(), "pipe")
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancelCause(t.Context())
		code := make(chan int)
		go func() {
			code <- run(ctx, append(strings.Fields(args), name), strings.NewReader(""), io.Discard, io.Discard)
		}()
		stop(signalled{os.Interrupt})
		if got := <-code; got != 130 {
			t.Errorf("%s: exit code %d, want 130", args, got)
		}
		if f, err := os.OpenFile(name, os.O_RDWR, 0); err == nil { // which ends the wait of the abandoned reader
			_ = f.Close()
		}
	}
}
