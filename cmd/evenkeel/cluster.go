package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation/join"
)

// clusterFlags say how host and member are reached.
type clusterFlags struct {
	kubeconfig, context, namespace  string
	memberKubeconfig, memberContext string
}

func newCluster() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Join clusters as members, take that back, and list them",
		Long: `Make clusters members of a host, the cluster that evenkeel controller runs in: it keeps them connected and knows what runs
there. The host is the cluster that kubectl talks to, or that of --kubeconfig and --context.`,
		GroupID: groupOther,
	}
	cmd.AddCommand(newClusterJoin(), newClusterLeave(), newClusterList(), newClusterOrphans(), newClusterCordon(), newClusterUncordon())
	return cmd
}

func (o *clusterFlags) addTo(f *pflag.FlagSet) {
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file of the host; by default the same as for kubectl")
	f.StringVar(&o.context, "context", "", "context of --kubeconfig")
}

func (o *clusterFlags) addMember(f *pflag.FlagSet) {
	f.StringVarP(&o.namespace, "namespace", "n", controllerNamespace,
		"namespace of the controllers in the host, and of their account in the member")
	f.StringVar(&o.memberKubeconfig, "member-kubeconfig", "",
		"kubeconfig file of the member; by default that of the host, with --member-context")
	f.StringVar(&o.memberContext, "member-context", "", "context of the member")
}

func (o *clusterFlags) checkNamespace() error {
	err := checkNamespaces("namespace", o.namespace)
	return misuse(err != nil, "the manifests use "+controllerNamespace, "%w", err)
}

// hasMember reports whether a flag names the member.
func (o *clusterFlags) hasMember() bool { return o.memberKubeconfig != "" || o.memberContext != "" }

// host connects to the host.
func (o *clusterFlags) host() (join.Cluster, error) {
	return reach("", o.kubeconfig, o.context, "give --kubeconfig for the host")
}

// member connects to the member; the zero value if no flag names it.
func (o *clusterFlags) member() (join.Cluster, error) {
	if !o.hasMember() {
		return join.Cluster{}, nil
	}
	return reach("member-", cmp.Or(o.memberKubeconfig, o.kubeconfig), o.memberContext, "give --member-kubeconfig")
}

// both connects to host and member.
func (o *clusterFlags) both() (host, member join.Cluster, err error) {
	if host, err = o.host(); err == nil {
		member, err = o.member()
	}
	return host, member, err
}

func reach(prefix, kubeconfig, context, hint string) (join.Cluster, error) {
	config, err := kubectlConfig(prefix, kubeconfig, context, noCluster(hint))
	if err != nil {
		return join.Cluster{}, err
	}
	config = rest.AddUserAgent(config, "evenkeel-cluster")
	c, err := clusterClient(config)
	return join.Cluster{Client: c, Config: config}, err
}

func clusterClient(config *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, &usageError{err, "the kubeconfig says how the cluster is reached"}
	}
	return c, nil
}

func newClusterJoin() *cobra.Command {
	o := clusterFlags{}
	j := join.Options{As: clusterClient}
	var region, zone string
	var fixedNodes bool
	var more map[string]string
	cmd := &cobra.Command{
		Use:   "join NAME",
		Short: "Make a cluster a member, or renew its credentials",
		Long: `Make a cluster a member of the host, by a name. In the member, the controllers get an account with no more rights than they
need, and a token. It is verified that the rights suffice. In the host, a Secret gets the token, and a MemberCluster refers to it.

For a member that has joined already, this renews the token and revokes the old one; the controllers need no restart. It needs the
right to make a ClusterRole in the member, and to write Secrets and MemberClusters in the host.`,
		Example: `  evenkeel cluster join paris --member-kubeconfig paris.kubeconfig --region eu --zone eu-west-3
  evenkeel cluster join paris --context host --member-context paris`,
		Args: oneCluster,
		RunE: func(cmd *cobra.Command, args []string) error {
			j.Namespace, j.Labels = o.namespace, more
			if cmd.Flags().Changed("fixed-nodes") {
				j.FixedNodes = &fixedNodes
			}
			if j.Labels == nil {
				j.Labels = map[string]string{}
			}
			for key, value := range map[string]string{v1.LabelTopologyRegion: region, v1.LabelTopologyZone: zone} {
				if value != "" {
					j.Labels[key] = value
				}
			}
			if err := checkJoin(&o, &j); err != nil {
				return err
			}
			host, member, err := o.both()
			if err != nil {
				return err
			}
			server := j.Server
			if server == "" {
				server = member.Config.Host
			}
			if join.Local(server) {
				fmt.Fprintln(cmd.ErrOrStderr(),
					"note: the member is at an address that only this machine reaches: --server gives the one for the controllers")
			}
			if err := misuse(member.Config.Insecure, "give the certificate authority of the member in certificate-authority-data",
				"the kubeconfig of the member does not verify its certificate, and the controllers would not either"); err != nil {
				return err
			}
			steps, err := join.Join(cmd.Context(), host, member, args[0], j)
			return finish(cmd.OutOrStdout(), steps, err, "membercluster/"+args[0]+" joined")
		},
	}
	o.addTo(cmd.Flags())
	o.addMember(cmd.Flags())
	f := cmd.Flags()
	f.StringVar(&region, "region", "", "region of the member: its label "+v1.LabelTopologyRegion)
	f.StringVar(&zone, "zone", "", "zone of the member: its label "+v1.LabelTopologyZone)
	f.StringToStringVar(&more, "labels", nil, "further labels of the MemberCluster, as key=value")
	f.StringVar(&j.Server, "server", "", "address of the member for the controllers; by default the one in its kubeconfig")
	f.BoolVar(&fixedNodes, "fixed-nodes", false,
		"the nodes of the member are all that it has, no autoscaler adds any: the controllers may read them, and give the "+
			"member what they have room for; by default as before")
	f.DurationVar(&j.Lifetime, "token-lifetime", join.DefaultLifetime, "how long the token should be valid; the member may shorten it")
	return cmd
}

// finish prints what was done and, if all of it was, the end.
func finish(out io.Writer, steps []join.Step, err error, end string) error {
	for _, s := range steps {
		fmt.Fprintf(out, "%s: %s %s\n", s.Where, s.What, s.Result)
	}
	switch {
	case errors.Is(err, join.ErrUndrainable):
		return &usageError{err, "leave without --drain to keep what runs there"}
	case errors.Is(err, join.ErrNotDrained):
		return fmt.Errorf("%w; it stays marked: repeat the command, or take that back with evenkeel cluster uncordon", err)
	case errors.Is(err, join.ErrNotMember):
		return &usageError{err, "evenkeel cluster list shows the members"}
	case errors.Is(err, join.ErrUnsuitable):
		return &usageError{err, "see evenkeel cluster join --help"}
	case err != nil:
		return err
	}
	fmt.Fprintln(out, end)
	return nil
}

// checkJoin refuses flags before anything is asked of a cluster.
func checkJoin(o *clusterFlags, j *join.Options) error {
	_, label := labels.ValidatedSelectorFromSet(j.Labels)
	return cmp.Or(
		o.checkNamespace(),
		misuse(!o.hasMember(), "--member-kubeconfig or --member-context says how the member is reached", "no member given"),
		misuse(j.Lifetime < 10*time.Minute, "API servers give no shorter tokens", "invalid --token-lifetime %s: must be 10m or more", j.Lifetime),
		misuse(j.Server != "" && !strings.HasPrefix(j.Server, "https://"),
			"it is the address of the API server, such as https://paris.example.com:6443", "invalid --server %q: must begin with https://",
			j.Server),
		misuse(label != nil, "--region, --zone and --labels become labels of the MemberCluster", "invalid label: %w", label),
	)
}

// oneCluster wants the name of a member.
func oneCluster(_ *cobra.Command, args []string) error {
	if err := oneArgument(args, "name", "the member, as in paris", "member"); err != nil {
		return err
	}
	if problems := validation.IsDNS1123Subdomain(args[0]); len(problems) > 0 || len(args[0]) > validation.LabelValueMaxLength {
		return fmt.Errorf("invalid name %q: must be lower-case letters, digits, '-' and '.', at most %d of them", args[0],
			validation.LabelValueMaxLength)
	}
	return nil
}

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
			host, member, err := o.both()
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
	f.DurationVar(&l.Timeout, "timeout", join.DefaultDrainTimeout, "how long --drain may take")
	return cmd
}

func checkLeave(cmd *cobra.Command, o *clusterFlags, l *join.LeaveOptions) error {
	return cmp.Or(
		o.checkNamespace(),
		misuse(l.Drain && !o.hasMember(), "--member-kubeconfig or --member-context says how the member is reached", "--drain without a member"),
		misuse(cmd.Flags().Changed("timeout") && !l.Drain, "add --drain, or omit --timeout", "--timeout requires --drain"),
		misuse(l.Timeout <= 0, "such as 15m", "invalid --timeout %s: must be positive", l.Timeout),
	)
}

// printRemaining prints a line about what a member that is drained still runs.
func printRemaining(out io.Writer, name string, left []join.Remaining) {
	var pods, unplaced int32
	for _, r := range left {
		pods += r.Pods
		unplaced += r.Unplaced
	}
	text := fmt.Sprintf("%s: %d pods of %d FederatedReplicaSets are left", name, pods, len(left))
	if unplaced > 0 {
		text += fmt.Sprintf("; %d replicas have no other cluster that is able to run them, or may", unplaced)
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
		Long: "Take the taints " + v1alpha1.TaintCordoned + " and " + v1alpha1.TaintLeaving +
			" away from a member: it gets its share of replicas again. " +
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
