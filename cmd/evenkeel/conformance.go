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
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider/conformance"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc/externalgrpcpb"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc/wirerules"
	"github.com/evenkeel/evenkeel/cmd/evenkeel/internal/printing"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/serving"
)

// conformanceOptions are the flags of the command: the server, and what may be changed.
type conformanceOptions struct {
	address  string
	files    serving.Files
	timeout  time.Duration
	nodeWait time.Duration
	readOnly bool
	groups   []string
	nodes    string
}

// newConformance builds the command that checks an external cloud provider server.
func newConformance() *cobra.Command {
	var output printing.Flags
	o := conformanceOptions{timeout: 5 * time.Second, nodeWait: 2 * time.Minute}
	cmd := &cobra.Command{
		Use:   "conformance --address HOST:PORT [--group GROUP... | --read-only]",
		Short: "Check an external cloud provider server against what Cluster Autoscaler relies on",
		Long: `Check any server of Cluster Autoscaler's external gRPC cloud provider protocol against what Cluster Autoscaler
relies on. The output has a line for each rule, with the reason if it did not pass.

NODES ARE ORDERED AND DELETED, up to 4 at a time, in the groups named with --group, or in any group. Only nodes ordered by a
rule are deleted again, but a cloud that breaks a rule may delete other nodes of these groups, or keep a node too many.
So name groups that are not in use, with room for 4 nodes, and stop the autoscaler meanwhile. With --read-only nothing is
changed: rules that change sizes are skipped.

Exit codes: 0 no rule failed, 1 a rule failed or the server cannot be reached, 2 wrong usage or unusable certificates.`,
		Example: `  evenkeel conformance --address localhost:8086
  evenkeel conformance --address localhost:8086 --group test-a --group test-b
  evenkeel conformance --address cloud.example:8086 --cert client.crt --key client.key --cacert ca.crt --read-only
  kubectl get nodes -o json | evenkeel conformance --address localhost:8086 --read-only --nodes -`,
		GroupID: groupAnswers,
		Args:    noArguments,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("settle") { // cobra prints the warning of a deprecated flag among the output
				fmt.Fprintln(cmd.ErrOrStderr(), "Warning: --settle is deprecated, use --node-timeout instead")
			}
			return o.validate(cmd.Flags())
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := o.check(cmd.Context(), inputsOf(cmd), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if err := report.print(output.Printer(cmd)); err != nil {
				return err
			}
			if report.Summary.Failed > 0 {
				return errReported
			}
			return nil
		},
	}
	output.AddTo(cmd, printing.Table, printing.Wide, printing.JSON, printing.YAML)
	f := cmd.Flags()
	f.StringVar(&o.address, "address", "", "host:port of the server")
	addCertificate(f, &o.files, "", "certificate to show to the server",
		"CA certificate to verify the server; without any of the three there is no TLS")
	f.DurationVar(&o.timeout, "timeout", o.timeout, "timeout of each call, like grpc_timeout of Cluster Autoscaler")
	f.DurationVar(&o.nodeWait, "node-timeout", o.nodeWait, "how long the creation and deletion of nodes may take")
	f.DurationVar(&o.nodeWait, "settle", o.nodeWait, "deprecated: use --node-timeout")
	f.Lookup("settle").Hidden = true
	f.BoolVar(&o.readOnly, "read-only", false, "change nothing: skip the rules that order and delete nodes")
	f.StringArrayVar(&o.groups, "group", nil, "node group that may be changed; may be repeated; by default all of them")
	f.StringVar(&o.nodes, "nodes", "", `list of nodes as kubectl get nodes -o json prints it, "-" is standard input`)
	return cmd
}

func (o *conformanceOptions) validate(f *pflag.FlagSet) error {
	return cmp.Or(
		refuse(o.address == "", "no server given (name one with --address HOST:PORT)"),
		refuse(o.readOnly && len(o.groups) > 0, "--group and --read-only cannot be combined: no group is changed then"),
		refuse(slices.Contains(o.groups, ""), "--group is empty"),
		positive(f, "timeout"), notNegative(f, "node-timeout"),
	)
}

// check checks the server and prints the report.
func (o *conformanceOptions) check(ctx context.Context, in inputs, stderr io.Writer) (*conformanceReport, error) {
	var harness conformance.Harness
	if o.nodes != "" {
		nodes, err := readNodeList(o.nodes, in)
		if err != nil {
			return nil, err
		}
		harness.RegisteredNodes = func(context.Context) ([]*v1.Node, error) { return nodes, nil }
	}
	conn, err := serving.Dial(o.address, o.files, clock.RealClock{})
	if err != nil {
		return nil, &usageError{err, "--address is host:port, --cert, --key and --cacert are files in PEM"}
	}
	defer conn.Close()
	timed := timedConn{conn, o.timeout}
	known, err := o.reach(ctx, timed)
	if err != nil {
		return nil, err
	}
	if err := o.checkGroups(known); err != nil {
		return nil, err
	}
	if len(o.groups) == 0 && !o.readOnly {
		o.groups = known
		fmt.Fprintf(stderr,
			"Nodes are ordered and deleted in any of %d node groups: --group names those that may be changed, --read-only changes nothing.\n",
			len(known))
	}
	provider := externalgrpc.NewClient(timed)
	harness.Provider, harness.Groups = provider, o.groups
	harness.WaitForNodes = conformance.Polling{
		Interval: min(max(o.nodeWait/100, 50*time.Millisecond), 2*time.Second), Timeout: o.nodeWait, Clock: clock.RealClock{},
	}.WaitForNodes(provider, o.groups)
	report := newConformanceReport(o.address)
	for _, rule := range conformanceRules(timed) {
		result := conformance.Judge(rule.Name, conformance.Skip("changes sizes, but --read-only was given"))
		if !o.readOnly || rule.Reach == conformance.Reads {
			result = rule.Check(ctx, harness)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		report.add(rule, result)
	}
	return report, nil
}

// reach opens the connection and lists the groups. A server that answers with an error counts as
// reached: the rules report the error.
func (o *conformanceOptions) reach(ctx context.Context, conn timedConn) ([]string, error) {
	groups, err := externalgrpcpb.NewCloudProviderClient(conn).NodeGroups(ctx, &externalgrpcpb.NodeGroupsRequest{},
		grpc.MaxCallRecvMsgSize(externalgrpc.MaxMessage))
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil && conn.GetState() != connectivity.Ready:
		return nil, fmt.Errorf("no connection to %s: %w", o.address, err)
	}
	known := make([]string, 0, len(groups.GetNodeGroups()))
	for _, g := range groups.GetNodeGroups() {
		known = append(known, g.GetId())
	}
	slices.Sort(known)
	return known, nil
}

// checkGroups returns an error if a named group does not exist.
func (o *conformanceOptions) checkGroups(known []string) error {
	for _, id := range o.groups {
		if !slices.Contains(known, id) {
			return &usageError{fmt.Errorf("the server has no node group %q", id), "its groups are " +
				strings.Join(known[:min(len(known), 20)], ", ")}
		}
	}
	return nil
}

// timedConn sets a timeout for each call, as Cluster Autoscaler does.
type timedConn struct {
	*grpc.ClientConn
	timeout time.Duration
}

func (c timedConn) Invoke(ctx context.Context, method string, request, answer any, options ...grpc.CallOption) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return c.ClientConn.Invoke(ctx, method, request, answer, options...)
}

// readNodeList reads the output of kubectl get nodes as JSON or YAML.
func readNodeList(name string, in inputs) (nodes []*v1.Node, err error) {
	err = document.Open(in.open).Objects(name, document.StreamOptions{}, func(_ string, item document.Item) error {
		if n, ok := item.Object.(*v1.Node); ok {
			nodes = append(nodes, n)
		}
		return nil
	})
	return nodes, cmp.Or(err, misuse(len(nodes) == 0, "give what kubectl get nodes -o json prints", "--nodes %s: no nodes in it", name))
}

// conformanceRules are all rules for the server at the other end of a connection, whether about the contract or
// about the wire, in the order they are checked.
func conformanceRules(conn grpc.ClientConnInterface) []conformance.Rule {
	return slices.DeleteFunc(append(conformance.Rules(), wirerules.Rules(conn)...),
		func(r conformance.Rule) bool { return r.Reach == conformance.InProcess })
}

// conformanceReport is the result of checking a server.
type conformanceReport struct {
	APIVersion string              `json:"apiVersion"`
	Kind       string              `json:"kind"`
	Address    string              `json:"address"`
	Summary    conformanceSummary  `json:"summary"`
	Rules      []conformanceResult `json:"rules"`
}

// conformanceSummary counts rules.
type conformanceSummary struct {
	Passed  int `json:"passed"`
	Warned  int `json:"warned"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
}

// conformanceResult is the result of one rule.
type conformanceResult struct {
	Rule   string              `json:"rule"`
	About  string              `json:"about"`
	Result conformance.Outcome `json:"result"`
	Reason string              `json:"reason,omitempty"`
}

func newConformanceReport(address string) *conformanceReport {
	return &conformanceReport{APIVersion: v1alpha1.APIVersion, Kind: "ConformanceReport", Address: address}
}

func (r *conformanceReport) add(rule conformance.Rule, result conformance.Result) {
	r.Rules = append(r.Rules, conformanceResult{rule.Name, rule.About, result.Outcome, result.Reason})
	switch result.Outcome {
	case conformance.Passed:
		r.Summary.Passed++
	case conformance.Warned:
		r.Summary.Warned++
	case conformance.Failed:
		r.Summary.Failed++
	case conformance.Skipped:
		r.Summary.Skipped++
	}
}

func (r *conformanceReport) print(p *printing.Printer) error {
	rules := printing.GridOf(printing.Columns("RULE", "RESULT", "REASON", "", "REQUIRED"), r.Rules, func(rule *conformanceResult) []any {
		return []any{rule.Rule, rule.Result, rule.Reason, rule.About}
	})
	s := r.Summary
	counts := fmt.Sprintf("%d rules: %d passed, %d warned, %d failed, %d skipped", len(r.Rules), s.Passed, s.Warned, s.Failed, s.Skipped)
	if s.Failed > 0 {
		return p.Result(r, rules, printing.Warning(counts))
	}
	return p.Result(r, rules, printing.Note(counts))
}
