package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/evenkeel/evenkeel/cmd/evenkeel/internal/printing"
)

// The groups of commands in the help.
const (
	groupAnswers = "answers"
	groupServers = "servers"
	groupOther   = "other"
)

// newRoot builds the command tree. started becomes true when a command begins its work: earlier
// errors are errors of usage.
func newRoot() (root *cobra.Command, started *bool) {
	started = new(bool)
	root = &cobra.Command{
		Use:   "evenkeel",
		Short: "Keep a Kubernetes fleet even across its failure domains",
		Long: `evenkeel keeps a Kubernetes fleet level across its failure domains: nodes across similar node groups, replicas
across deployments, zones and clusters. Its core is a node-group balancer for Cluster Autoscaler.

Exit codes: 0 success, 1 failure, 2 wrong usage or an invalid document.`,
		Example: `  evenkeel plan -f split.yaml
  evenkeel plan -f split.yaml -o json`,
		Args:          knownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	if strings.HasPrefix(filepath.Base(os.Args[0]), "kubectl-") { // a plugin of kubectl
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl evenkeel"}
	}
	printing.AddColor(root)

	root.AddGroup(
		&cobra.Group{ID: groupAnswers, Title: "Questions and Answers:"},
		&cobra.Group{ID: groupServers, Title: "Servers:"},
		&cobra.Group{ID: groupOther, Title: "Other Commands:"},
	)
	root.AddCommand(
		newCerts(),
		newCluster(),
		newConformance(),
		newController(),
		newDoctor(),
		newExpander(),
		newExplain(),
		newFakeCloud(),
		newMan(),
		newPlan(),
		newScenario(),
		newSidecar(),
		newSimulate(),
		newVersion(),
		newZone(),
	)
	root.SetHelpCommand(newHelp())
	root.SetCompletionCommandGroupID(groupOther)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	completeParents(root)
	noteStart(root, started)
	return root, started
}

// newHelp builds the help command, which unlike cobra's own returns an error for an unknown
// command.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Show the help of a command",
		Long:    "Show the help of a command or, without one, of the program.",
		Example: "  evenkeel help plan",
		GroupID: groupOther,
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, sub := range cmd.Root().Commands() {
				if sub.IsAvailableCommand() {
					names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err == nil {
				err = knownCommand(found, rest)
			}
			if err != nil {
				return &usageError{err, `see "evenkeel --help"`}
			}
			return found.Help()
		},
	}
}

// completeParents makes commands with subcommands refuse an unknown one, instead of ignoring it.
func completeParents(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		if cmd.HasSubCommands() && !cmd.Runnable() {
			cmd.Args = knownCommand
			cmd.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		}
	}
}

// noteStart makes every command below cmd set started.
func noteStart(cmd *cobra.Command, started *bool) {
	if work := cmd.RunE; work != nil {
		cmd.RunE = func(c *cobra.Command, args []string) error {
			*started = true
			return work(c, args)
		}
	}
	for _, sub := range cmd.Commands() {
		noteStart(sub, started)
	}
}

// knownCommand refuses an unknown command, and suggests the most similar one.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	near := cmd.SuggestionsFor(args[0])
	if len(near) == 0 {
		return fmt.Errorf("unknown command %q", args[0])
	}
	return fmt.Errorf(`unknown command %q, did you mean "%s"?`, args[0], strings.Join(near, `" or "`))
}

// oneArgument wants the name of one thing, such as the zone that the example names.
func oneArgument(args []string, missing, example, thing string) error {
	switch {
	case len(args) == 0:
		return fmt.Errorf("no %s given (name %s)", missing, example)
	case len(args) > 1:
		return fmt.Errorf("unexpected argument %q: one %s at a time", args[1], thing)
	}
	return nil
}

// noArguments refuses arguments of a command that takes only flags.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.Flags().Lookup("filename") != nil {
		return fmt.Errorf("unexpected argument %q: files are given with -f", args[0])
	}
	return fmt.Errorf("unexpected argument %q", args[0])
}
