package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cmd/evenkeel/internal/printing"
)

func newClusterList() *cobra.Command {
	o := clusterFlags{}
	var output printing.Flags
	var selector string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the members",
		Long: "List the member clusters: whether they answer, which version they have, where they are, their taints and, " +
			"with -o wide, what is wrong.",
		Example: "  evenkeel cluster list\n  evenkeel cluster list -l topology.kubernetes.io/region=eu -o wide",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			chosen, err := labels.Parse(selector)
			if err != nil {
				return &usageError{fmt.Errorf("invalid --selector: %w", err), "such as topology.kubernetes.io/region=eu"}
			}
			host, err := o.host()
			if err != nil {
				return err
			}
			list, err := listClusters(cmd.Context(), host.Client, chosen)
			if err != nil {
				return err
			}
			printer := output.Printer(cmd)
			if printer.Names() {
				for i := range list.Items {
					fmt.Fprintln(cmd.OutOrStdout(), "membercluster.evenkeel.dev/"+list.Items[i].Name)
				}
				return nil
			}
			return printer.List(cmd.ErrOrStderr(), list, clusterTable(list, now()), "No cluster has joined.")
		},
	}
	o.addTo(cmd.Flags())
	cmd.Flags().StringVarP(&selector, "selector", "l", "", "labels of the members to list")
	output.AddTo(cmd, printing.Table, printing.Wide, printing.JSON, printing.YAML, printing.Name)
	return cmd
}

func listClusters(ctx context.Context, c client.Client, chosen labels.Selector) (*v1alpha1.MemberClusterList, error) {
	list := &v1alpha1.MemberClusterList{Items: []v1alpha1.MemberCluster{}}
	err := c.List(ctx, list, client.MatchingLabelsSelector{Selector: chosen})
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, &usageError{errors.New("the host has no MemberClusters"), "install the definitions: kubectl apply -k configs/crd"}
	}
	if err != nil {
		return nil, fmt.Errorf("listing MemberClusters: %w", err)
	}
	list.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.KindMemberCluster + "List"}
	for i := range list.Items {
		list.Items[i].TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.KindMemberCluster}
		list.Items[i].ManagedFields = nil
	}
	return list, nil
}

// clusterTable shows members as kubectl shows objects.
func clusterTable(list *v1alpha1.MemberClusterList, at time.Time) printing.Grid {
	columns := printing.Columns("NAME", "REACHABLE", "REASON", "VERSION", "REGION", "TAINTS", "AGE", "", "ZONE", "CREDENTIALS", "MESSAGE")
	return printing.GridOf(columns, list.Items, func(m *v1alpha1.MemberCluster) []any {
		reachable := conditionOf(m, v1alpha1.ConditionReachable)
		credentials := conditionOf(m, v1alpha1.ConditionCredentialsValid)
		message := reachable.Message
		if credentials.Status == metav1.ConditionFalse || reachable.Status == metav1.ConditionTrue {
			message = credentials.Message
		}
		var taints []string
		for _, t := range m.Spec.Taints {
			taints = append(taints, t.Key+":"+string(t.Effect))
		}
		return []any{
			m.Name, reachable.Status, reachable.Reason, m.Status.Version, m.Labels[v1.LabelTopologyRegion], strings.Join(taints, ","),
			duration.HumanDuration(at.Sub(m.CreationTimestamp.Time)), m.Labels[v1.LabelTopologyZone], credentials.Reason, message,
		}
	})
}

// conditionOf is Unknown where the controller has not looked yet.
func conditionOf(m *v1alpha1.MemberCluster, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(m.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{Status: metav1.ConditionUnknown, Reason: "NotObserved",
		Message: "no controller has looked at it: does evenkeel controller run?"}
}
