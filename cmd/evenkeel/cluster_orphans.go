package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cmd/evenkeel/internal/printing"
	"github.com/evenkeel/evenkeel/federation/join"
	"github.com/evenkeel/evenkeel/federation/members"
)

func newClusterOrphans() *cobra.Command {
	o := clusterFlags{}
	var output printing.Flags
	cmd := &cobra.Command{
		Use:   "orphans [NAME...]",
		Short: "List what runs in members for FederatedReplicaSets that do not exist",
		Long: `List the local objects in all members, or in those with the names, whose FederatedReplicaSet the host does not have: it was deleted
and they were to stay, or it was lost when the host was restored from a backup. Nothing is changed. The members are reached as the
controllers reach them, which needs the right to read their Secrets.`,
		Example: "  evenkeel cluster orphans\n  evenkeel cluster orphans paris -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.checkNamespace(); err != nil {
				return err
			}
			host, err := o.host()
			if err != nil {
				return err
			}
			list, err := listClusters(cmd.Context(), host.Client, labels.Everything())
			if err != nil {
				return err
			}
			for _, name := range args {
				if !slices.ContainsFunc(list.Items, func(m v1alpha1.MemberCluster) bool { return m.Name == name }) {
					return &usageError{fmt.Errorf("there is no MemberCluster %q", name), "evenkeel cluster list shows them"}
				}
			}
			orphans, failed := []join.Orphan{}, 0
			for i := range list.Items {
				m := &list.Items[i]
				if len(args) > 0 && !slices.Contains(args, m.Name) {
					continue
				}
				some, err := orphansIn(cmd.Context(), host, m, o.namespace)
				if err != nil {
					failed++
					fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s: %v\n", m.Name, err)
				}
				orphans = append(orphans, some...)
			}
			none := "Every local object has its FederatedReplicaSet."
			if failed > 0 {
				none = ""
			}
			err = output.Printer(cmd).List(cmd.ErrOrStderr(), orphans, printing.GridOf(
				printing.Columns("CLUSTER", "NAMESPACE", "OBJECT", "REPLICAS"), orphans,
				func(o *join.Orphan) []any { return []any{o.Cluster, o.Namespace, o.Object, o.Replicas} }), none)
			if err == nil && failed > 0 {
				err = fmt.Errorf("%d of the members could not be read", failed)
			}
			return err
		},
	}
	o.addTo(cmd.Flags())
	cmd.Flags().StringVarP(&o.namespace, "namespace", "n", controllerNamespace,
		"namespace of the controllers in the host, with the Secrets of the members")
	output.AddTo(cmd, printing.Table, printing.JSON, printing.YAML)
	return cmd
}

// orphansIn reaches a member as the controllers do.
func orphansIn(ctx context.Context, host join.Cluster, m *v1alpha1.MemberCluster, namespace string) ([]join.Orphan, error) {
	ref := m.Spec.KubeconfigSecretRef
	if ref.Name == "" {
		return nil, errors.New("it has no kubeconfig: it comes from a ClusterProfile")
	}
	var secret v1.Secret
	if err := host.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, &secret); err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", ref.Name, err)
	}
	config, _, err := members.ReadKubeconfig(secret.Data[cmp.Or(ref.Key, v1alpha1.DefaultKubeconfigKey)], now())
	if err != nil {
		return nil, err
	}
	c, err := clusterClient(config)
	if err != nil {
		return nil, err
	}
	return join.Orphans(ctx, host, join.Cluster{Client: c, Config: config}, m.Name)
}
