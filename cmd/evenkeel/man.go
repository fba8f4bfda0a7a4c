package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newMan builds the command that writes the manual. It is for those who package evenkeel, so the help does not show it.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use:     "man FOLDER",
		Short:   "Write the manual pages into a folder",
		Long:    "Write a manual page for each command into a folder, which is created if there is none.",
		Example: "  evenkeel man share/man/man1",
		Hidden:  true,
		Args: func(_ *cobra.Command, args []string) error {
			return oneArgument(args, "folder", "it, as in share/man/man1", "folder")
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			this := thisBuild()
			date, err := time.Parse(time.RFC3339, this.BuildDate)
			if err != nil {
				date = time.Unix(0, 0) // a build that nobody stamped: the pages still do not depend on the day
			}
			date = date.UTC()
			root := cmd.Root()
			root.DisableAutoGenTag = true
			header := &doc.GenManHeader{Section: "1", Date: &date, Source: fmt.Sprint(root.Name(), " ", this.Version), Manual: root.Short}
			return doc.GenManTree(root, header, args[0])
		},
	}
}
