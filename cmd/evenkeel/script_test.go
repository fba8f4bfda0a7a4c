package main

import (
	"flag"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"evenkeel": main})
}

var update = flag.Bool("update", false, "write what the commands print into the scripts")

// TestScripts runs the program from end to end; each file under testdata/script is one story. $DATA
// is the folder with the dumps of a real cluster.
func TestScripts(t *testing.T) {
	data, err := filepath.Abs("../../configs/scenarios/data")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", UpdateScripts: *update, RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("DATA", data)
			return nil
		},
	})
}
