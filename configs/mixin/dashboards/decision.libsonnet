local panels = import 'panels.libsonnet';

// The split that is being carried out, and the answers to Cluster Autoscaler.
{
  grafanaDashboards+:: {
    local m = $._matchers,
    'evenkeel-decision.json': panels.dashboard(
      'evenkeel-decision',
      'evenkeel / Decision',
      'The split that is being carried out, what waits for it, and how Cluster Autoscaler is answered. The page /status has the members and the reasons.',
      [
        panels.number('Age of the split', 'Age of the split that is being carried out; 0 without one.', 's', 'max(evenkeel_sidecar_plan_age_seconds%(all)s)' % m, bad=false),
        panels.number('Nodes withheld', 'Nodes that the last loop asked for and that the sidecar did not grant.', 'short', 'max(evenkeel_sidecar_withheld_nodes%(all)s)' % m, bad=false),
        panels.number('Pods that wait for them', 'About how many pending pods those nodes were asked for.', 'short', 'max(evenkeel_sidecar_withheld_pods%(all)s)' % m, bad=false),
        panels.number('Journal failures', 'Readings and writings of the journal that failed within an hour.', 'short', 'sum(increase(evenkeel_sidecar_journal_failures_total%(all)s[1h]))' % m),
      ],
      [
        panels.graph('Answers of the sidecar', 'Answers a minute that had to be decided, by call and result.', 'short', [
          ['60 * sum by (call, result) (rate(evenkeel_sidecar_decisions_total%(all)s[$__rate_interval]))' % m, '{{call}} {{result}}'],
        ]),
        panels.graph('Answers of the expander', 'Answers a minute, by result.', 'short', [
          ['60 * sum by (call, result) (rate(evenkeel_expander_decisions_total%(all)s[$__rate_interval]))' % m, '{{call}} {{result}}'],
        ]),
        panels.graph('Time to answer', 'How long the slowest one of a hundred calls took, by method.', 's', [
          ['histogram_quantile(0.99, sum by (le, method) (rate(evenkeel_grpc_request_duration_seconds_bucket%(all)s[$__rate_interval])))' % m, '{{method}}'],
        ]),
        panels.graph('Withheld', 'What Cluster Autoscaler asked for in its last loop and did not get.', 'short', [
          ['max(evenkeel_sidecar_withheld_nodes%(all)s)' % m, 'nodes'],
          ['max(evenkeel_sidecar_withheld_pods%(all)s)' % m, 'pods'],
          ['max(evenkeel_sidecar_unseen_nodes%(all)s)' % m, 'nodes that it cannot see'],
        ]),
        panels.graph('Reading the cloud', 'How long the slowest one of a hundred readings took.', 's', [
          ['histogram_quantile(0.99, sum by (le) (rate(evenkeel_sidecar_refresh_duration_seconds_bucket%(all)s[$__rate_interval])))' % m, 'refresh'],
        ]),
        panels.graph('Loops skipped', 'Loops an hour that were skipped because the cloud could not be read.', 'short', [
          ['3600 * sum(rate(evenkeel_sidecar_refresh_failures_total%(all)s[$__rate_interval]))' % m, 'skipped'],
        ]),
      ],
    ),
  },
}
