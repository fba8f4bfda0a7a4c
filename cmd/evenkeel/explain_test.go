package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The commands of the manual print what the manual says.
func TestManualOfExplain(t *testing.T) {
	t.Chdir("../..")
	text, err := os.ReadFile("docs/explain.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?s)```console\n\\$ evenkeel (.*?)\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(shown) < 5 {
		t.Fatalf("found %d commands", len(shown))
	}
	for _, command := range shown {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), strings.Fields(command[1]), strings.NewReader(""), &stdout, &stderr); code != exitSuccess {
			t.Errorf("%s: exit code %d, stderr: %s", command[1], code, &stderr)
		}
		if diff := cmp.Diff(command[2], stdout.String()); diff != "" {
			t.Errorf("%s (-manual +printed):\n%s", command[1], diff)
		}
	}
}
