package followed_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/evenkeel/evenkeel/internal/followed"
)

func number(_ string, content []byte) (int, error) { return strconv.Atoi(string(content)) }

func TestAFileIsReadAgainWhenItChanges(t *testing.T) {
	name := filepath.Join(t.TempDir(), "number")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := followed.Open(name, number); !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	write("1")
	f, value, err := followed.Open(name, number)
	if err != nil || value != 1 || f.Name() != name {
		t.Fatal(value, err)
	}
	look := func(want int, wantChange, wantErr bool) {
		t.Helper()
		if value, changed, err := f.Changed(); value != want || changed != wantChange || (err != nil) != wantErr {
			t.Errorf("%d, changed %t, %v; want %d, %t, error %t", value, changed, err, want, wantChange, wantErr)
		}
	}
	look(0, false, false)
	write("x")
	look(0, false, true)
	look(0, false, false) // said once
	write("2")
	look(2, true, false)
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	look(0, false, true)
	look(0, false, false)
	write("2")
	look(0, false, false) // as before
	write("")
	look(0, false, true)
}
