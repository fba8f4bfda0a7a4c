package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/sidecar/cluster"
)

func ExampleOpenFileJournal() {
	folder, err := os.MkdirTemp("", "journal")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)

	journal, err := cluster.OpenFileJournal(filepath.Join(folder, "journal.json"))
	if err != nil {
		panic(err)
	}
	if err := journal.Save(context.Background(), []byte(`{"granted":3}`)); err != nil {
		panic(err)
	}
	text, err := journal.Load(context.Background())
	fmt.Println(string(text), err)
	fmt.Println(journal.Close())
	// Output:
	// {"granted":3} <nil>
	// <nil>
}

func TestFileJournalOutlivesItsProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.json")
	first := open(t, path)
	if text, err := first.Load(t.Context()); err != nil || len(text) > 0 {
		t.Errorf("a new journal has %q, %v", text, err)
	}
	for _, text := range []string{"a longer text", "b"} {
		if err := first.Save(t.Context(), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	// What a crash left behind is in nobody's way.
	if err := os.WriteFile(path+".new", bytes.Repeat([]byte("x"), 100), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := open(t, path)
	if text, err := second.Load(t.Context()); err != nil || string(text) != "b" {
		t.Errorf("loaded %q, %v", text, err)
	}
	if err := second.Save(t.Context(), []byte("c")); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("mode %o", got)
	}
}

func TestFileJournalIsOneProcesss(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.json")
	first := open(t, path)
	if _, err := cluster.OpenFileJournal(path); err == nil || !strings.Contains(err.Error(), "used by another process?") {
		t.Errorf("opened twice: %v", err)
	}
	if err := errors.Join(first.Close(), first.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Load(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("loaded after the end: %v", err)
	}
	if err := first.Save(t.Context(), nil); !errors.Is(err, os.ErrClosed) {
		t.Errorf("saved after the end: %v", err)
	}
	open(t, path)
}

func TestFileJournalRefuses(t *testing.T) {
	folder := t.TempDir()
	if _, err := cluster.OpenFileJournal(filepath.Join(folder, "none", "journal.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
	path := filepath.Join(folder, "journal.json")
	j := open(t, path)
	for name, text := range map[string][]byte{"too long": make([]byte, cluster.MaxText), "no text": {0xff}} {
		if err := j.Save(t.Context(), text); err == nil {
			t.Errorf("%s: saved", name)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := j.Load(t.Context()); err == nil {
			t.Errorf("%s: loaded", name)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := j.Save(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("saved for nobody: %v", err)
	}
	if _, err := j.Load(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("loaded for nobody: %v", err)
	}
}

func open(t *testing.T, path string) *cluster.FileJournal {
	t.Helper()
	j, err := cluster.OpenFileJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}
