local panels = import 'panels.libsonnet';

// Balancers, FederatedReplicaSets, member clusters and WorkloadSpreads.
{
  grafanaDashboards+:: {
    local m = $._matchers,
    'evenkeel-controllers.json': panels.dashboard(
      'evenkeel-controllers',
      'evenkeel / Controllers',
      'Balancers, FederatedReplicaSets, member clusters, WorkloadSpreads and deletion costs.',
      [
        panels.number('Replicas that no target can run', 'Of all Balancers.', 'short', 'sum(evenkeel_balancer_unplaced_replicas%(all)s)' % m),
        panels.number('Replicas that no cluster can run', 'Of all FederatedReplicaSets.', 'short', 'sum(evenkeel_federation_unplaced_replicas%(all)s)' % m),
        panels.number('Member clusters not ready', 'Clusters that are in another state than Ready.', 'short', 'sum(evenkeel_member_state{state!="Ready"%(more)s})' % m),
        panels.number('Pods of no subset', 'Of all WorkloadSpreads.', 'short', 'sum(evenkeel_workloadspread_unassigned_pods%(all)s)' % m),
      ],
      [
        panels.graph('Replicas that do not run', 'Replicas that are asked for and do not run, by Balancer.', 'short', [
          ['sum by (namespace, name) (evenkeel_balancer_requested_replicas%(all)s - evenkeel_balancer_running_replicas%(all)s)' % m, '{{namespace}}/{{name}}'],
        ]),
        panels.graph('Sizes written', 'Sizes written a minute to targets of Balancers, by direction and result.', 'short', [
          ['60 * sum by (direction, result) (rate(evenkeel_balancer_rescales_total%(all)s[$__rate_interval]))' % m, '{{direction}} {{result}}'],
        ]),
        panels.graph('Targets with trouble', 'Targets of Balancers that cannot be read, do not exist, or are also written by something else.', 'short', [
          ['sum(evenkeel_balancer_unreadable_targets%(all)s)' % m, 'cannot be read'],
          ['sum(evenkeel_balancer_missing_targets%(all)s)' % m, 'do not exist'],
          ['sum(evenkeel_balancer_contested_targets%(all)s)' % m, 'are written by others, too'],
          ['sum(evenkeel_balancer_fallbacks_active%(all)s)' % m, 'have not started in time'],
        ]),
        panels.graph('Local objects written', 'Writes a minute to member clusters, by cluster and result.', 'short', [
          ['60 * sum by (cluster, result) (rate(evenkeel_federation_writes_total%(all)s[$__rate_interval]))' % m, '{{cluster}} {{result}}'],
        ]),
        panels.graph('Time until a local object is written', 'Of the slowest one of a hundred, by cluster.', 's', [
          ['histogram_quantile(0.99, sum by (le, cluster) (rate(evenkeel_federation_write_duration_seconds_bucket%(all)s[$__rate_interval])))' % m, '{{cluster}}'],
        ]),
        panels.graph('States of member clusters', '1 for the state that a cluster is in.', 'short', [
          ['sum by (cluster, state) (evenkeel_member_state%(all)s) > 0' % m, '{{cluster}} {{state}}'],
        ]),
        panels.graph('Pods by subset', 'Active pods, by WorkloadSpread and subset.', 'short', [
          ['sum by (namespace, name, subset) (evenkeel_workloadspread_subset_replicas%(all)s)' % m, '{{namespace}}/{{name}} {{subset}}'],
        ]),
        panels.graph('Time of webhooks', 'How long the slowest one of a hundred answers took, by webhook.', 's', [
          ['histogram_quantile(0.99, sum by (le, webhook) (rate(evenkeel_workloadspread_webhook_duration_seconds_bucket%(all)s[$__rate_interval])))' % m, '{{webhook}}'],
        ]),
        panels.graph('Deletion costs', 'ReplicaSets for which deletion costs are asked for, and those whose costs were not right yet.', 'short', [
          ['sum(evenkeel_deletioncost_replicasets%(all)s)' % m, 'all'],
          ['sum(evenkeel_deletioncost_uneven_replicasets%(all)s)' % m, 'not right yet'],
        ]),
        panels.graph('Objects that wait', 'Objects that wait for a pass, by controller.', 'short', [
          ['sum by (name) (workqueue_depth{name=~"balancer|federation|members|workloadspread"%(more)s})' % m, '{{name}}'],
        ]),
        panels.graph('Passes that failed', 'Passes a minute that ended with an error, by controller.', 'short', [
          ['60 * sum by (controller) (rate(controller_runtime_reconcile_errors_total{controller=~"balancer|federation|members|workloadspread"%(more)s}[$__rate_interval]))' % m, '{{controller}}'],
        ]),
        panels.graph('Certificates', 'Time until they expire, by listener.', 's', [
          ['min by (listener) (evenkeel_certificate_expiry_timestamp_seconds%(all)s - time())' % m, '{{listener}}'],
        ]),
      ],
    ),
  },
}
