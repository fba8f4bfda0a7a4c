package controlplane

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// A mark may lie in the middle of a line that was being written: that line is from before it.
func TestWritesSinceAnyMark(t *testing.T) {
	c := &ControlPlane{layout: layout{folder: t.TempDir()}}
	var log strings.Builder
	var begins []int
	for i := range 3 {
		begins = append(begins, log.Len())
		fmt.Fprintf(&log, `{"verb": "create", "user": {"username": "u"}, "objectRef": {"name": "%d"}}`+"\n", i)
	}
	if err := os.WriteFile(c.layout.audit(), []byte(log.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for mark := range log.Len() + 1 {
		want := 0
		for _, begin := range begins {
			if begin >= mark {
				want++
			}
		}
		if got, err := c.Writes("u", Mark(mark)); err != nil || len(got) != want {
			t.Errorf("since %d: %d writes, %v; want %d", mark, len(got), err, want)
		}
	}
}
