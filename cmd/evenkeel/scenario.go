package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/document"
	"github.com/evenkeel/evenkeel/simulate"
)

// newScenario groups the commands about documents of kind Scenario.
func newScenario() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "scenario",
		Short:   "Write scenarios for simulate",
		Long:    "Write documents of kind Scenario, which evenkeel simulate plays.",
		GroupID: groupAnswers,
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			return &usageError{errors.New("no command given"), "evenkeel scenario from-dump makes a scenario of a cluster"}
		},
	}
	cmd.AddCommand(newFromDump())
	return cmd
}

// fromDump is what its flags say.
type fromDump struct {
	options simulate.DumpOptions
	files   []string
	nodes   []string
	limit   fileSize
}

func newFromDump() *cobra.Command {
	o := fromDump{limit: document.DefaultMaxStream}
	cmd := &cobra.Command{
		Use:   "from-dump {FILE...|-}",
		Short: "Make a scenario of what kubectl prints of a cluster",
		Long: `Make a scenario of what kubectl prints of a cluster, and write it to standard output as YAML: to be edited, and played with
evenkeel simulate -f. It needs no other file.

A FILE holds lists or objects as kubectl get -o json or -o yaml prints them, of one kind or mixed; a folder stands for the
files in it, "-" is standard input. Nodes are needed. Pods that run or are pending, daemon sets, claims, volumes, storage and
priority classes are taken over. Node groups are found by a label of the nodes; their bounds come from --nodes, else from the
ConfigMap cluster-autoscaler-status of Cluster Autoscaler.`,
		Example: `  evenkeel scenario from-dump nodes.json pods.json daemonsets.json >scenario.yaml
  evenkeel scenario from-dump dump/ --nodes 0:20:web | evenkeel simulate -f -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.files = slices.Concat(o.files, args)
			scenario, notes, err := o.scenario(cmd.InOrStdin())
			if err != nil {
				return err
			}
			for _, note := range notes {
				fmt.Fprintln(cmd.ErrOrStderr(), "note:", note)
			}
			raw, err := json.Marshal(scenario)
			if err != nil {
				return err
			}
			text, err := document.ToYAML(zeros.ReplaceAll(raw, nil))
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "file, folder or - for standard input; may be repeated")
	flags.StringVar(&o.options.Name, "name", "from-dump", "name of the scenario")
	flags.StringVar(&o.options.GroupLabel, "group-label", "", "label of a node whose value names its node group; by default one that a cloud gives")
	flags.StringArrayVar(&o.nodes, "nodes", nil, "MIN:MAX:GROUP, bounds of a node group; may be repeated")
	flags.Int32Var(&o.options.Max, "max", 100, "maximum of groups whose bounds nothing says")
	flags.Var(&o.limit, "max-file-size", "refuse larger files")
	return cmd
}

func (o *fromDump) scenario(stdin io.Reader) (*v1alpha1.Scenario, []string, error) {
	switch {
	case len(o.files) == 0:
		return nil, nil, &usageError{errors.New("no file given"), "name files or a folder, or - for standard input"}
	case o.options.Max < 0:
		return nil, nil, &usageError{fmt.Errorf("--max=%d: must not be negative", o.options.Max), "it bounds the groups whose bounds nothing says"}
	}
	dump := &simulate.Dump{}
	nodes := 0
	err := o.eachObject(stdin, func(item document.Item) error {
		if item.Kind == "Node" {
			nodes++
		}
		return dump.Add(item)
	})
	switch {
	case err != nil:
		return nil, nil, err
	case nodes == 0:
		return nil, nil, &usageError{fmt.Errorf("%s: holds no Node", strings.Join(o.files, ", ")), "the output of kubectl get nodes says what the node groups are"}
	}
	bounds := map[string]simulate.DumpBounds{}
	for _, text := range o.nodes {
		least, most, name, err := parseBounds(text)
		if err != nil {
			return nil, nil, &usageError{err, "as in --nodes=0:10:" + cmp.Or(name, "web")}
		}
		bounds[name] = simulate.DumpBounds{Min: int32(least), Max: int32(most)}
	}
	o.options.Bounds = bounds
	scenario, notes, err := dump.Scenario(o.options)
	if err != nil {
		return nil, nil, &usageError{err, "--group-label names the label of a node whose value is its group"}
	}
	return scenario, notes, nil
}

// eachObject reads the objects of all files.
func (o *fromDump) eachObject(stdin io.Reader, each func(document.Item) error) error {
	open := func(name string) (io.ReadCloser, error) {
		if name == "-" {
			return io.NopCloser(stdin), nil
		}
		return os.Open(name)
	}
	for i, name := range o.files {
		if name == "-" && slices.Contains(o.files[:i], "-") {
			return &usageError{errors.New("stdin is named twice, but can be read only once"), "name it once"}
		}
		files, isFolder := []string{name}, false
		if name != "-" {
			var err error
			if files, isFolder, err = document.Expand(name, open); err != nil {
				return err
			}
		}
		items := 0
		for _, file := range files {
			n, err := o.objects(file, open, isFolder, each)
			if err != nil {
				return err
			}
			items += n
		}
		if items == 0 {
			title := name
			if name == "-" {
				title = "stdin"
			}
			return &document.Invalid{Problems: []document.Problem{{File: title, Err: document.EmptyList(title)}}}
		}
	}
	return nil
}

func (o *fromDump) objects(file string, open func(string) (io.ReadCloser, error), isFolder bool, each func(document.Item) error) (items int, err error) {
	f, err := open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	title := file
	if file == "-" {
		title = "stdin"
	}
	for item, err := range document.Objects(title, f, document.StreamOptions{MaxSize: int64(o.limit)}) {
		switch {
		case isFolder && errors.Is(err, document.ErrSnapshot):
			return items, nil
		case err != nil:
			return items, err
		}
		items++
		if err := each(item); err != nil {
			return items, err
		}
	}
	return items, nil
}

// zeros are what encoding leaves in a template though it says nothing.
var zeros = regexp.MustCompile(`,"(?:daemonEndpoints":\{"kubeletEndpoint":\{"Port":0\}\}|nodeInfo":\{[^{}]*\})`)
