package main

import (
	"flag"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"evenkeel": main})
}

var update = flag.Bool("update", false, "write what the commands print into the scripts")

// TestScripts runs the program from end to end; each file under testdata/script is one story.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script", UpdateScripts: *update, RequireExplicitExec: true})
}
