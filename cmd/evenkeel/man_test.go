package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Every command that the help shows has a manual page, which names its flags; hidden ones have none.
func TestEveryCommandHasAManualPage(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "man", "man1")
	if code := run(t.Context(), []string{"man", folder}, nil, io.Discard, os.Stderr); code != exitSuccess {
		t.Fatal("exit code", code)
	}
	want := map[string]bool{}
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
		want[name] = true
		page, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Error(err)
			return
		}
		if text := string(page); !strings.Contains(text, "1970") || !strings.Contains(text, ".SH SYNOPSIS") {
			t.Errorf("%s begins with\n%.300s", name, text)
		}
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				visit(sub)
			}
		}
	}
	root, _ := newRoot()
	visit(root)
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !want[file.Name()] {
			t.Errorf("%s is the page of no command in the help", file.Name())
		}
	}
	if len(want) < 20 {
		t.Errorf("only %d commands", len(want))
	}
}
