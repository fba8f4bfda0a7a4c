package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evenkeel/evenkeel/cmd/evenkeel/internal/printing"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/plan"
)

// newPlan builds the command that computes planning documents.
func newPlan(color *printing.ColorMode) *cobra.Command {
	var output printing.Flags
	var files []string
	limit := fileSize(document.DefaultMaxSize)
	cmd := &cobra.Command{
		Use:   "plan -f FILE...",
		Short: "Answer planning documents: what goes where",
		Long: `Answer planning documents of the kinds NodeGroupSplit, NodeGroupSimilarity, ReplicaDistribution, SpreadSplit and
TopologySpread. Each is printed with its status, in the order of the input. Planning reads no cluster and no cloud, and
writes nothing.

A file holds one or several documents, YAML or JSON; "-" is standard input. All documents are checked before any is
answered: if one is invalid, every problem is reported with the path of its field, and the exit code is 2. Nodes or replicas
that could not be placed are part of the answer, not an error.`,
		Example: `  evenkeel plan -f split.yaml
  evenkeel plan -f splits.yaml -f replicas.yaml -o yaml
  evenkeel plan -f - -o json <split.yaml`,
		GroupID: groupAnswers,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(files) == 0 {
				return &usageError{fmt.Errorf("no file given"), "name one with -f, or - for standard input"}
			}
			answers, err := answer(cmd, files, int64(limit))
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			printer := output.Printer(out, color.Allows(out))
			if printer.Tables() {
				noteIdle(cmd.ErrOrStderr(), answers)
			}
			return printAll(printer, answers, answerParts)
		},
	}
	addFiles(cmd.Flags(), &files, &limit)
	output.AddTo(cmd, printing.Table, printing.Wide, printing.JSON, printing.YAML)
	return cmd
}

// addFiles adds the flags of a command that reads documents.
func addFiles(flags *pflag.FlagSet, files *[]string, limit *fileSize) {
	flags.StringArrayVarP(files, "filename", "f", nil, "file of documents, - for standard input; may be repeated")
	flags.Var(limit, "max-file-size", "refuse larger files")
}

// An answered document has a status.
type answered struct {
	document.Document
	status any
}

// answer reads and checks all documents before it answers any.
func answer(cmd *cobra.Command, files []string, limit int64) ([]answered, error) {
	docs, err := document.ReadFiles(files, inputsOf(cmd).open, document.Options{MaxSize: limit})
	if err != nil {
		return nil, err
	}
	var problems []document.Problem
	for i := range docs {
		problems = append(problems, docs[i].Refuse(plan.Validate(docs[i].Object)...)...)
	}
	if len(problems) > 0 {
		return nil, &document.Invalid{Problems: problems}
	}
	answers := make([]answered, len(docs))
	for i, d := range docs {
		status, err := plan.Answer(d.Object)
		if err != nil {
			return nil, &document.Invalid{Problems: d.Refuse(err)}
		}
		answers[i] = answered{d, status}
	}
	return answers, nil
}

// noteIdle prints a note for each option that has no effect.
func noteIdle(w io.Writer, answers []answered) {
	for _, a := range answers {
		for _, note := range plan.Idle(a.Object) {
			fmt.Fprintf(w, "note: %s: document %d: %v\n", a.File, a.Number, note)
		}
	}
}

// MarshalJSON returns the document with its status.
func (a answered) MarshalJSON() ([]byte, error) { return a.WithStatus(a.status) }

// fileSize is a flag whose value is a number of bytes as a quantity, such as 512Mi.
type fileSize int64

func (s *fileSize) String() string {
	return resource.NewQuantity(int64(*s), resource.BinarySI).String()
}

func (s *fileSize) Type() string { return "quantity" }

func (s *fileSize) Set(text string) error {
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Value() <= 0 {
		return fmt.Errorf("must be a positive quantity such as 512Mi")
	}
	*s = fileSize(q.Value())
	return nil
}
