package charts

import (
	"bytes"
	"testing"

	"github.com/helm-unittest/helm-unittest/pkg/unittest"
	"github.com/helm-unittest/helm-unittest/pkg/unittest/printer"
)

// TestSuites runs the suites of helm-unittest in evenkeel/tests.
func TestSuites(t *testing.T) {
	var out bytes.Buffer
	runner := unittest.TestRunner{Printer: printer.NewPrinter(&out, nil), Strict: true, TestFiles: []string{"tests/*_test.yaml"}}
	if !runner.RunV3([]string{"evenkeel"}) {
		t.Error(out.String())
	}
	if !bytes.Contains(out.Bytes(), []byte("Test Suites: 6 passed, 6 total")) {
		t.Errorf("not all suites ran:\n%s", out.String())
	}
}
