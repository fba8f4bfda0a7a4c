package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cmd/evenkeel/internal/printing"
	"github.com/evenkeel/evenkeel/internal/zonemarks"
	"github.com/evenkeel/evenkeel/zonalshift"
)

// zoneOptions say where the marks of zones are.
type zoneOptions struct {
	file                                      string
	kubeconfig, context, namespace, configMap string
	key                                       string
}

func newZone() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "zone",
		Short: "Shift zones away, and return them",
		Long: `Mark zones that are in trouble as shifted away: no node group grows there, no node is removed in the sets that have members
there, and what is needed comes up in the other zones. A zone that is returned catches up at a bounded pace. Nothing is moved
or drained.

The marks are in a ConfigMap of the cluster that kubectl talks to, or with --file in a file. The sidecar and the
expander read them there: see their flags --zonal-shift-configmap and --zonal-shift-file.`,
		GroupID: groupAnswers,
	}
	cmd.AddCommand(newZoneShift(), newZoneReturn(), newZoneList())
	return cmd
}

func (o *zoneOptions) addTo(f *pflag.FlagSet) {
	f.StringVar(&o.file, "file", "", "file of the marks, in place of a ConfigMap; it need not exist")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file of the cluster; by default the same as for kubectl")
	f.StringVar(&o.context, "context", "", "context of the kubeconfig")
	f.StringVarP(&o.namespace, "namespace", "n", zonemarks.DefaultNamespace, "namespace of the ConfigMap")
	f.StringVar(&o.configMap, "configmap", zonemarks.DefaultConfigMap, "name of the ConfigMap")
}

func (o *zoneOptions) addKey(f *pflag.FlagSet) {
	f.StringVar(&o.key, "topology-key", v1.LabelTopologyZone, "the label of the failure domain")
}

// store returns where the marks are, and the connection to the cluster; nil with a file.
func (o *zoneOptions) store(flags *pflag.FlagSet) (zonemarks.Store, kubernetes.Interface, error) {
	if o.file != "" {
		for _, name := range []string{"kubeconfig", "context", "namespace", "configmap"} {
			if flags.Changed(name) {
				return nil, nil, &usageError{fmt.Errorf("--file and --%s cannot be combined", name), "the marks are in a file or in a ConfigMap"}
			}
		}
		return zonemarks.File{Path: o.file}, nil, nil
	}
	config, err := kubectlConfig("", o.kubeconfig, o.context, noCluster("give --kubeconfig for the cluster, or --file for a file"))
	if err != nil {
		return nil, nil, err
	}
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(config, "evenkeel-zone"))
	if err != nil {
		return nil, nil, &usageError{err, "--kubeconfig says how the cluster is reached"}
	}
	return zonemarks.ConfigMap{Client: client, Namespace: o.namespace, Name: o.configMap}, client, nil
}

func newZoneShift() *cobra.Command {
	o := zoneOptions{}
	var lasts time.Duration
	var reason string
	var force bool
	cmd := &cobra.Command{
		Use:   "shift ZONE",
		Short: "Shift a zone away",
		Long: `Mark a zone as shifted away, until it is returned or, with --for, for a time. A zone that is shifted away already gets the
new reason and end.`,
		Example: `  evenkeel zone shift eu-west-1a --for 2h --reason "power failure"
  evenkeel zone shift r17 --topology-key example.com/rack --file shifts.yaml`,
		Args: oneZone,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("for") && lasts <= 0 {
				return &usageError{fmt.Errorf("invalid --for %s: must be positive", lasts), "without --for the shift lasts until the zone is returned"}
			}
			store, client, err := o.store(cmd.Flags())
			if err != nil {
				return err
			}
			mark := zonalshift.Mark{Domain: zonalshift.DomainOf(o.key, args[0]), Reason: reason, Since: now()}
			if lasts > 0 {
				mark.Until = mark.Since.Add(lasts)
			}
			if client != nil && !force {
				if err := checkZone(cmd.Context(), client, mark, cmd.ErrOrStderr()); err != nil {
					return err
				}
			}
			if err := changeMarks(cmd.Context(), store, func(doc *v1alpha1.ZonalShift) error { return setShift(doc, mark) }); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "zone/%s shifted\n", args[0])
			return nil
		},
	}
	o.addTo(cmd.Flags())
	o.addKey(cmd.Flags())
	cmd.Flags().DurationVar(&lasts, "for", 0, "how long the shift lasts, such as 2h; by default until the zone is returned")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for people")
	cmd.Flags().BoolVar(&force, "force", false, "shift a zone in which no node is, too")
	return cmd
}

func newZoneReturn() *cobra.Command {
	o := zoneOptions{}
	cmd := &cobra.Command{
		Use:     "return ZONE",
		Short:   "Return a zone that is shifted away",
		Long:    "Remove the mark of a zone that is shifted away. Its node groups catch up at a bounded pace.",
		Example: "  evenkeel zone return eu-west-1a",
		Args:    oneZone,
		RunE: func(cmd *cobra.Command, args []string) error {
			store, _, err := o.store(cmd.Flags())
			if err != nil {
				return err
			}
			domain := zonalshift.DomainOf(o.key, args[0])
			if err := changeMarks(cmd.Context(), store, func(doc *v1alpha1.ZonalShift) error { return removeShift(doc, domain) }); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "zone/%s returned\n", args[0])
			return nil
		},
	}
	o.addTo(cmd.Flags())
	o.addKey(cmd.Flags())
	return cmd
}

func newZoneList() *cobra.Command {
	o := zoneOptions{}
	var output printing.Flags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the zones that are shifted away",
		Long: "List the zones that are marked as shifted away. The status page of the sidecar or the expander shows what it makes of " +
			"them, and what it has detected.",
		Example: "  evenkeel zone list\n  evenkeel zone list --file shifts.yaml -o yaml",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, _, err := o.store(cmd.Flags())
			if err != nil {
				return err
			}
			text, err := store.Load(cmd.Context())
			if err != nil {
				return err
			}
			doc, marks, err := zonemarks.Parse(store.String(), text)
			if err != nil {
				return err
			}
			return output.Printer(cmd).List(cmd.ErrOrStderr(), doc, markTable(marks, now()), "No zone is shifted away.")
		},
	}
	o.addTo(cmd.Flags())
	output.AddTo(cmd, printing.Table, printing.Wide, printing.JSON, printing.YAML)
	return cmd
}

// markTable shows marks as kubectl shows objects.
func markTable(marks []zonalshift.Mark, at time.Time) printing.Grid {
	grid := printing.NewGrid("ZONE", "STATUS", "AGE", "LEFT", "REASON", "", "TOPOLOGY KEY", "UNTIL")
	for _, m := range marks {
		status, age, left, until := "Shifted", "", "", ""
		if !m.Since.IsZero() {
			age = duration.HumanDuration(at.Sub(m.Since))
		}
		if !m.Until.IsZero() {
			left, until = duration.HumanDuration(m.Until.Sub(at)), m.Until.UTC().Format(time.RFC3339)
		}
		switch {
		case at.Before(m.Since):
			status, age = "Planned", ""
		case !m.Until.IsZero() && !at.Before(m.Until):
			status, left = "Ended", ""
		}
		grid.Add(m.Value, status, age, left, m.Reason, m.Key, until)
	}
	return grid
}

// now is the time in whole seconds, as a document has it.
func now() time.Time { return clock.RealClock{}.Now().UTC().Truncate(time.Second) }

func oneZone(_ *cobra.Command, args []string) error {
	return oneArgument(args, "zone", "it, as in eu-west-1a", "zone")
}

// changeMarks changes the document in a store. Where what is there cannot be read, nothing is
// changed.
func changeMarks(ctx context.Context, store zonemarks.Store, change func(*v1alpha1.ZonalShift) error) error {
	return store.Change(ctx, func(text []byte) ([]byte, error) {
		doc, _, err := zonemarks.Parse(store.String(), text)
		if err != nil {
			return nil, err
		}
		if err := change(doc); err != nil {
			return nil, err
		}
		out, err := zonemarks.Format(doc)
		if err != nil {
			return nil, err
		}
		if _, _, err := zonemarks.Parse("ZONE", out); err != nil { // before it is there for a server
			return nil, err
		}
		return out, nil
	})
}

// setShift adds a mark, or gives one that is there the new reason and end. Marks that have ended go.
func setShift(doc *v1alpha1.ZonalShift, m zonalshift.Mark) error {
	shift := v1alpha1.DomainShift{Name: m.Value, Reason: m.Reason, Since: &metav1.Time{Time: m.Since}}
	if m.Key != v1.LabelTopologyZone {
		shift.TopologyKey = m.Key
	}
	if !m.Until.IsZero() {
		shift.Until = &metav1.Time{Time: m.Until}
	}
	doc.Spec.Shifts = slices.DeleteFunc(doc.Spec.Shifts, func(s v1alpha1.DomainShift) bool {
		return s.Until != nil && !m.Since.Before(s.Until.Time)
	})
	at := slices.IndexFunc(doc.Spec.Shifts, func(s v1alpha1.DomainShift) bool {
		return zonalshift.DomainOf(s.TopologyKey, s.Name) == m.Domain
	})
	if at < 0 {
		doc.Spec.Shifts = append(doc.Spec.Shifts, shift)
		return nil
	}
	if since := doc.Spec.Shifts[at].Since; since == nil || since.Time.Before(m.Since) {
		shift.Since = since
	}
	doc.Spec.Shifts[at] = shift
	return nil
}

func removeShift(doc *v1alpha1.ZonalShift, domain zonalshift.Domain) error {
	before := len(doc.Spec.Shifts)
	var names []string
	doc.Spec.Shifts = slices.DeleteFunc(doc.Spec.Shifts, func(s v1alpha1.DomainShift) bool {
		names = append(names, s.Name)
		return zonalshift.DomainOf(s.TopologyKey, s.Name) == domain
	})
	if len(doc.Spec.Shifts) < before {
		return nil
	}
	shifted := cmp.Or(strings.Join(names, ", "), "no zone")
	return &usageError{fmt.Errorf("%s is not shifted away: %s is", domain, shifted), "evenkeel zone list shows the marks"}
}

// checkZone refuses a zone in which no node is.
func checkZone(ctx context.Context, client kubernetes.Interface, mark zonalshift.Mark, notes io.Writer) error {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: mark.Key})
	switch {
	case apierrors.IsForbidden(err):
		fmt.Fprintf(notes, "note: nodes may not be listed, so it is not checked that %s exists\n", mark.Domain)
		return nil
	case err != nil:
		return fmt.Errorf("listing nodes: %w", err)
	}
	var known []string
	for i := range nodes.Items {
		known = append(known, nodes.Items[i].Labels[mark.Key])
	}
	slices.Sort(known)
	err = zonalshift.Check([]zonalshift.Mark{mark}, func(string) []string { return slices.Compact(known) })
	if err != nil {
		return &usageError{err, "--force marks a zone in which no node is"}
	}
	return nil
}
