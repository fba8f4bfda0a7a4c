package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation/join"
)

func newClusterLeave() *cobra.Command {
	o := clusterFlags{}
	var l join.LeaveOptions
	cmd := &cobra.Command{
		Use:   "leave NAME",
		Short: "Take a member back out",
		Long: `Take back what join has made: the MemberCluster and the Secret in the host, the account and its rights in the member. Without
--member-kubeconfig and --member-context, the account in the member stays.

What runs in the member stays there and belongs to nobody any more. With --drain, it moves to other members before, and what is left
of its local objects is deleted. If replicas remain after --timeout, the member stays a member that is marked as leaving: the command can
be repeated, or the mark taken back with evenkeel cluster uncordon.`,
		Example: `  evenkeel cluster leave paris --member-kubeconfig paris.kubeconfig --drain
  evenkeel cluster leave paris`,
		Args: oneCluster,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkLeave(cmd, &o, &l); err != nil {
				return err
			}
			host, err := o.host()
			if err != nil {
				return err
			}
			member, err := o.member()
			if err != nil {
				return err
			}
			l.Namespace = o.namespace
			l.Progress = func(left []join.Remaining) { printRemaining(cmd.ErrOrStderr(), args[0], left) }
			steps, err := join.Leave(cmd.Context(), host, member, args[0], l)
			if member.Client == nil && err == nil {
				fmt.Fprintln(cmd.ErrOrStderr(), "note: the account of the controllers in the member stays; with --member-kubeconfig it is deleted")
			}
			return finish(cmd.OutOrStdout(), steps, err, "membercluster/"+args[0]+" left")
		},
	}
	o.addTo(cmd.Flags())
	o.addMember(cmd.Flags())
	f := cmd.Flags()
	f.BoolVar(&l.Drain, "drain", false, "move what runs in the member to other members before")
	f.DurationVar(&l.Timeout, "timeout", join.DefaultDrainTimeout, "how long that may take")
	return cmd
}

func checkLeave(cmd *cobra.Command, o *clusterFlags, l *join.LeaveOptions) error {
	switch err := checkNamespaces("namespace", o.namespace); {
	case err != nil:
		return &usageError{err, "the manifests use " + controllerNamespace}
	case l.Drain && o.memberKubeconfig == "" && o.memberContext == "":
		return &usageError{errors.New("--drain without a member"), "--member-kubeconfig or --member-context says how the member is reached"}
	case cmd.Flags().Changed("timeout") && !l.Drain:
		return &usageError{errors.New("--timeout without --drain"), "only draining takes time"}
	case l.Timeout <= 0:
		return &usageError{fmt.Errorf("invalid --timeout %s: must be positive", l.Timeout), "such as 15m"}
	}
	return nil
}

// printRemaining prints a line about what a member that is drained still runs.
func printRemaining(out io.Writer, name string, left []join.Remaining) {
	var pods, homeless int32
	for _, r := range left {
		pods += r.Pods
		homeless += r.Homeless
	}
	text := fmt.Sprintf("%s: %d pods of %d FederatedReplicaSets are left", name, pods, len(left))
	if homeless > 0 {
		text += fmt.Sprintf("; %d replicas have no other cluster that is able to run them, or may", homeless)
	}
	fmt.Fprintln(out, text)
}

func newClusterCordon() *cobra.Command {
	return newTainting(&cobra.Command{
		Use:   "cordon NAME",
		Short: "Give a member no more replicas; it keeps what it has",
		Long: "Taint a member with " + v1alpha1.TaintCordoned + ":NoSchedule: it keeps the replicas that it has and gets no more. " +
			"kubectl taint and kubectl cordon are for nodes only.",
		Example: "  evenkeel cluster cordon paris",
	}, join.Cordon)
}

func newClusterUncordon() *cobra.Command {
	return newTainting(&cobra.Command{
		Use:   "uncordon NAME",
		Short: "Take back cordon, or a leave --drain that has not ended",
		Long: "Take the taints " + v1alpha1.TaintCordoned + " and " + v1alpha1.TaintLeaving + " away from a member: it gets its share of replicas again. " +
			"Other taints stay.",
		Example: "  evenkeel cluster uncordon paris",
	}, join.Uncordon)
}

func newTainting(cmd *cobra.Command, change func(context.Context, join.Cluster, string) ([]join.Step, error)) *cobra.Command {
	o := clusterFlags{}
	cmd.Args = oneCluster
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		host, err := o.host()
		if err != nil {
			return err
		}
		steps, err := change(cmd.Context(), host, args[0])
		if err != nil {
			return finish(cmd.OutOrStdout(), steps, err, "")
		}
		for _, s := range steps {
			fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", s.What, s.Result)
		}
		return nil
	}
	o.addTo(cmd.Flags())
	return cmd
}
