package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cmd/evenkeel/internal/printing"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/plan"
	"github.com/evenkeel/evenkeel/internal/spelling"
)

// newPlan builds the command that computes planning documents.
func newPlan() *cobra.Command {
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
		RunE: promptly(func(cmd *cobra.Command, _ []string) error {
			if len(files) == 0 {
				return &usageError{fmt.Errorf("no file given"), "name one with -f, or - for standard input"}
			}
			answers, err := answer(cmd, files, int64(limit))
			if err != nil {
				return err
			}
			printer := output.Printer(cmd)
			if printer.Tables() {
				noteIdle(cmd.ErrOrStderr(), answers)
			}
			return printing.All(printer, answers, answered.title, answerParts)
		}),
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
	check := func(d *document.Document) field.ErrorList { return plan.Validate(d.Object) }
	docs, err := document.ReadFiles(files, inputsOf(cmd).open, document.Options{MaxSize: limit, Check: check})
	if err != nil {
		return nil, err
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

// title names the document.
func (a answered) title() string { return a.Kind + "/" + cmp.Or(a.Name, printing.None) }

// answerParts are one document's answer as tables.
func answerParts(_ *printing.Printer, a answered) []printing.Part {
	switch d := a.Object.(type) {
	case *v1alpha1.NodeGroupSplit:
		return splitParts(&d.Spec, a.status.(*v1alpha1.NodeGroupSplitStatus))
	case *v1alpha1.NodeGroupSimilarity:
		return similarityParts(a.status.(*v1alpha1.NodeGroupSimilarityStatus))
	case *v1alpha1.ReplicaDistribution:
		return distributionParts(&d.Spec, a.status.(*v1alpha1.ReplicaDistributionStatus))
	case *v1alpha1.SpreadSplit:
		return spreadSplitParts(&d.Spec, a.status.(*v1alpha1.SpreadSplitStatus))
	case *v1alpha1.TopologySpread:
		return spreadParts(a.status.(*v1alpha1.TopologySpreadStatus))
	}
	return nil
}

func spreadSplitParts(s *v1alpha1.SpreadSplitSpec, status *v1alpha1.SpreadSplitStatus) []printing.Part {
	g := printing.NewGrid("GROUP", "SIZE", "NEW-SIZE", "ADDED", "", "DOMAIN", "MAX")
	for i, row := range status.Groups {
		g.Add(row.Name, row.Size, row.NewSize, row.NewSize-row.Size, s.Groups[i].Domain, s.Groups[i].Max)
	}
	parts := []printing.Part{g, printing.Note(fmt.Sprintf("placed: %d of %s", status.Placed,
		spelling.Count(status.Placed+status.Unplaced, "pod")))}
	if status.Unplaced == 0 {
		return parts
	}
	return append(parts, printing.Warning("unplaced: "+spelling.Count(status.Unplaced, "pod")+"; binding: "+
		cmp.Or(strings.Join(status.Binding, ","), printing.None)))
}

func splitParts(s *v1alpha1.NodeGroupSplitSpec, status *v1alpha1.NodeGroupSplitStatus) []printing.Part {
	g := printing.NewGrid("GROUP", "SIZE", "NEW-SIZE", "ADDED", "REASON", "", "MIN", "MAX", "WEIGHT")
	for i, row := range status.Groups {
		in := &s.Groups[i]
		g.Add(row.Name, row.Size, row.NewSize, row.NewSize-row.Size, row.Reason, ptr.Deref(in.Min, 0), in.Max, ptr.Deref(in.Weight, 1))
	}
	if status.Unplaced == 0 {
		return []printing.Part{g}
	}
	return []printing.Part{g, printing.Warning("unplaced: " + spelling.Count(status.Unplaced, "node") + " that no group has room for")}
}

func spreadParts(status *v1alpha1.TopologySpreadStatus) []printing.Part {
	g := printing.NewGrid("NODE", "FITS", "SCORE", "REASONS")
	fits := false
	for _, row := range status.Nodes {
		g.Add(row.Name, row.Fits, row.Score, strings.Join(row.Reasons, "; "))
		fits = fits || row.Fits
	}
	if fits {
		return []printing.Part{g}
	}
	return []printing.Part{g, printing.Warning("the pod fits on no node")}
}

func distributionParts(s *v1alpha1.ReplicaDistributionSpec, status *v1alpha1.ReplicaDistributionStatus) []printing.Part {
	g := printing.NewGrid("TARGET", "REPLICAS", "PENDING", "REASON", "", "WEIGHT", "MIN", "MAX", "CAPACITY", "CURRENT")
	for i, row := range status.Targets {
		in := &s.Targets[i]
		g.Add(row.Name, row.Replicas, row.Pending, row.Reason, ptr.Deref(in.Weight, 1), ptr.Deref(in.Min, 0), in.Max, in.Capacity,
			ptr.Deref(in.Current, 0))
	}
	parts := []printing.Part{g}
	if status.Unplaced > 0 {
		parts = append(parts, printing.Warning("unplaced: "+spelling.Count(status.Unplaced, "replica")+" that can run nowhere"))
	}
	if status.Excess > 0 {
		parts = append(parts, printing.Warning("excess: the minimums ask for "+spelling.Count(status.Excess, "replica")+" more than the total"))
	}
	return parts
}

func similarityParts(status *v1alpha1.NodeGroupSimilarityStatus) []printing.Part {
	sets, differences := printing.NewGrid("SET", "SIZE", "GROUPS"), differenceGrid()
	for i, set := range status.Sets {
		sets.Add(i+1, len(set.Groups), strings.Join(set.Groups, ","))
	}
	for _, d := range status.Differences {
		for _, f := range d.Fields {
			differences.Add(d.Groups[0], d.Groups[1], f.Field, side(f.Left), side(f.Right), f.Ratio, f.Limit)
		}
	}
	return []printing.Part{sets, differences}
}

// side formats one value of a difference: an empty value differs from a missing one.
func side(value *string) string {
	switch {
	case value == nil:
		return printing.None
	case *value == "":
		return `""`
	}
	return *value
}

// notes are sentences that need attention.
func notes(sentences []string) (parts []printing.Part) {
	for _, sentence := range sentences {
		parts = append(parts, printing.Warning("Note: "+sentence+"."))
	}
	return parts
}
