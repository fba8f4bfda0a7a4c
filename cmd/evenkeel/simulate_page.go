package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/evenkeel/evenkeel/internal/simulate/htmlreport"
)

// canReplace checks before anything is played whether a report can be written to a file; an empty
// name means no report.
func canReplace(name string) error {
	if name == "" {
		return nil
	}
	const hint = "--report names a file, as in --report report.html"
	if name == "-" {
		return &usageError{errors.New("--report -: the page is not written to standard output"), hint}
	}
	info, err := os.Stat(name)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return &usageError{fmt.Errorf("--report %s: is not a regular file", name), hint}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return &usageError{fmt.Errorf("--report %s: %w", name, err), hint}
	}
	if folder, err := os.Stat(filepath.Dir(name)); err != nil || !folder.IsDir() {
		return &usageError{fmt.Errorf("--report %s: folder %s does not exist", name, filepath.Dir(name)), "create it first"}
	}
	return nil
}

// writePage writes the page of results, if a file is named for it.
func writePage[R any](name string, results []R, as func(R) htmlreport.Result) error {
	if name == "" {
		return nil
	}
	shown := make([]htmlreport.Result, len(results))
	for i, r := range results {
		shown[i] = as(r)
	}
	var page bytes.Buffer
	if err := htmlreport.Write(&page, shown); err != nil {
		return err
	}
	if err := replaceFile(name, page.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
