// Command probe answers as evenkeel does what the archives are made from.
package main

import (
	"os"
	"path/filepath"
)

var version string

func main() {
	if err := answer(os.Args[1:]); err != nil {
		println(err.Error())
		os.Exit(1)
	}
}

func answer(args []string) error {
	if args[0] == "man" {
		return os.WriteFile(filepath.Join(args[1], "evenkeel.1"), []byte(".SH SYNOPSIS"), 0o600)
	}
	text := "evenkeel completion of " + args[len(args)-1]
	if args[0] == "version" {
		text = `{"version": "` + version + `"}`
	}
	_, err := os.Stdout.WriteString(text)
	return err
}
