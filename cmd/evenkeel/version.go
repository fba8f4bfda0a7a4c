package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cmd/evenkeel/internal/printing"
)

// Set by the linker in a release; otherwise taken from the build information of the Go tool.
var version, commit, date string

// build identifies the program.
type build struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Version    string `json:"version"`
	Commit     string `json:"commit"`
	BuildDate  string `json:"buildDate"`
	GoVersion  string `json:"goVersion"`
	Platform   string `json:"platform"`
}

func newVersion() *cobra.Command {
	var flags printing.Flags
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of evenkeel",
		Long:    "Print version, commit, build date and the Go version the program was built with.",
		Example: "  evenkeel version\n  evenkeel version -o json",
		GroupID: groupOther,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := thisBuild()
			table := printing.NewGrid("VERSION", "COMMIT", "BUILT", "GO", "PLATFORM")
			table.Add(b.Version, b.Commit, b.BuildDate, b.GoVersion, b.Platform)
			return flags.Printer(cmd).Result(b, table)
		},
	}
	flags.AddTo(cmd, printing.Table, printing.JSON, printing.YAML)
	return cmd
}

func thisBuild() build {
	b := build{
		APIVersion: v1alpha1.APIVersion, Kind: "Version",
		Version: version, Commit: commit, BuildDate: date,
		GoVersion: runtime.Version(), Platform: fmt.Sprintf("%s/%s", runtime.GOOS, runtime.GOARCH),
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Version = cmp.Or(b.Version, info.Main.Version)
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = cmp.Or(b.Commit, s.Value)
			case "vcs.time":
				b.BuildDate = cmp.Or(b.BuildDate, s.Value)
			}
		}
	}
	b.Version, b.Commit, b.BuildDate = cmp.Or(b.Version, "unknown"), cmp.Or(b.Commit, "unknown"), cmp.Or(b.BuildDate, "unknown")
	return b
}
