package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
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
	name := pipe(t)
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
	for _, args := range []string{
		"plan -f", "simulate -f", "explain -f", "explain --group-label pool --nodes", "scenario from-dump -f", "doctor -f", "sidecar --replay",
		"simulate price --node-group-policies", "simulate price --scheduler-config-file",
		"explain --nodes - --group-label pool --node-group-policies", "explain --nodes - --group-label pool --scheduler-config-file",
		"explain --nodes - --group-label pool --zonal-shift-file",
	} {
		name := pipe(t)
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

// What is read again later must not be a pipe: nobody writes to it a second time.
func TestFilesThatAreReadAgainAreNoPipes(t *testing.T) {
	certs := t.TempDir()
	if code := run(t.Context(), []string{"certs", "--dir", certs, "--host", "127.0.0.1"}, nil, io.Discard, os.Stderr); code != exitSuccess {
		t.Fatal("exit code", code)
	}
	pair := fmt.Sprintf("%[1]s/server.crt --expander-key %[1]s/server.key ", certs)
	sidecar := "sidecar --no-cluster --infer-readiness --journal-file journal --backend-address localhost:1 --expander-cert " + pair
	expander := "expander --cert " + strings.Replace(pair, "--expander-key", "--key", 1)
	for _, args := range []string{
		sidecar + "--node-group-policies", sidecar + "--zonal-shift-file",
		expander + "--node-group-policies", expander + "--expander priority --expander-priorities", "zone shift a --file",
	} {
		var stderr bytes.Buffer
		code := run(t.Context(), append(strings.Fields(args), pipe(t)), strings.NewReader(""), io.Discard, &stderr)
		if code != exitUsage || !strings.Contains(stderr.String(), "is a pipe, but is read more than once: name a regular file") {
			t.Errorf("%s: exit code %d, want %d; stderr: %s", args, code, exitUsage, &stderr)
		}
	}
}
