package document_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/internal/document"
)

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

const aNamespace = `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}`

func TestCompressedInput(t *testing.T) {
	_, names, err := collect(document.Objects("x", bytes.NewReader(zipped(t, aNamespace)), document.StreamOptions{}))
	if err != nil || len(names) != 1 {
		t.Errorf("objects %q, error %v", names, err)
	}
	docs, err := document.Read("x", bytes.NewReader(zipped(t, splitHead+"metadata: {name: a}\n")), document.Options{})
	if err != nil || len(docs) != 1 || docs[0].Name != "a" {
		t.Errorf("documents %v, error %v", docs, err)
	}
	s, err := document.ReadSnapshot("x", bytes.NewReader(zipped(t, `{"NodeList":[]}`)), document.StreamOptions{})
	if err != nil || s == nil {
		t.Errorf("snapshot: %v", err)
	}
}

// What is wrong with compressed input is a problem of the input, and the limit is for what comes out.
func TestBadCompressedInput(t *testing.T) {
	whole := zipped(t, aNamespace+strings.Repeat(" ", 1<<20))
	for name, tc := range map[string]struct {
		text []byte
		want string
	}{
		"cut":        {whole[:len(whole)-4], "x: is not a complete gzip file"},
		"no gzip":    {[]byte("\x1f\x8b123456789012345"), "x: is not a complete gzip file"},
		"very large": {whole, "x: larger than the limit of 64Ki"},
	} {
		_, err := document.Read("x", bytes.NewReader(tc.text), document.Options{MaxSize: 64 << 10})
		if name == "cut" {
			_, err = document.Read("x", bytes.NewReader(tc.text), document.Options{})
		}
		var invalid *document.Invalid
		if !errors.As(err, &invalid) || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %s", name, err, tc.want)
		}
		_, _, err = collect(document.Objects("x", bytes.NewReader(tc.text), document.StreamOptions{}))
		if name != "very large" && (!errors.As(err, &invalid) || !strings.Contains(err.Error(), "is not a complete gzip file")) {
			t.Errorf("%s, as objects: got %v, want %s", name, err, tc.want)
		}
	}
}

// The first byte may be that of a marker without being one.
func TestFirstBytes(t *testing.T) {
	for _, text := range []string{".", "..", ".json", "- a", "-", "--"} {
		_, _, err := collect(document.Objects("x", strings.NewReader(text), document.StreamOptions{}))
		var invalid *document.Invalid
		if !errors.As(err, &invalid) || strings.Contains(err.Error(), "UnreadByte") {
			t.Errorf("%q: got %v", text, err)
		}
	}
}
