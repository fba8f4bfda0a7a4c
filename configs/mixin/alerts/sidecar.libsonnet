{
  prometheusAlerts+:: {
    groups+: [
      {
        name: 'evenkeel-sidecar',
        rules: [
          {
            alert: 'EvenkeelSidecarAbsent',
            expr: 'absent(sum(rate(evenkeel_sidecar_refresh_duration_seconds_count%(all)s[5m])) + sum(rate(evenkeel_sidecar_refresh_failures_total%(all)s[5m])) > 0)' % $._matchers,
            'for': '5m',
            labels: { severity: 'critical' },
            annotations: {
              summary: 'No evenkeel sidecar serves a Cluster Autoscaler.',
              description: 'Nothing scales, or Prometheus does not get the metrics. See the pods of Cluster Autoscaler, their logs, the Lease cluster-autoscaler, and the targets of Prometheus.',
            },
          },
          {
            alert: 'EvenkeelSetBackedOff',
            expr: 'max by (namespace) (evenkeel_sidecar_backed_off_sets%(all)s) > 0' % $._matchers,
            'for': '5m',
            labels: { severity: 'warning' },
            annotations: {
              summary: 'No member of a set of node groups can grow.',
              description: 'The cloud refuses nodes for every node group of {{ $value }} set(s), or does not create them. Pods that need these nodes stay pending. The page /status of the sidecar names the groups and the reasons.',
            },
          },
          {
            alert: 'EvenkeelNotSteering',
            expr: 'max by (namespace) (evenkeel_sidecar_mode{mode="PassThrough"%(more)s}) > 0' % $._matchers,
            'for': '15m',
            labels: { severity: 'warning' },
            annotations: {
              summary: 'The sidecar passes increases through without balancing them.',
              description: 'It does so when Cluster Autoscaler does not ask its expander (--expander=grpc), or when --balance-similar-node-groups=false is given to the sidecar. The page /status says which.',
            },
          },
          {
            alert: 'EvenkeelJournalUnwritable',
            expr: 'sum by (namespace) (increase(evenkeel_sidecar_journal_failures_total%(all)s[10m])) > 3' % $._matchers,
            'for': '5m',
            labels: { severity: 'critical' },
            annotations: {
              summary: 'The sidecar cannot keep its journal.',
              description: 'Until it can, increases are not split, and after a crash nodes could be ordered twice. The log names the missing permission or the failing call.',
            },
          },
          {
            alert: 'EvenkeelPlanNotFinishing',
            expr: 'max by (namespace) (evenkeel_sidecar_plan_age_seconds%(all)s) > 1800' % $._matchers,
            labels: { severity: 'warning' },
            annotations: {
              summary: 'A split of nodes over similar node groups has not ended within half an hour.',
              description: 'Cluster Autoscaler does not ask for the rest, or the cloud creates nodes too slowly. The page /status shows the split and what it waits for.',
            },
          },
          {
            alert: 'EvenkeelCloudUnreadable',
            expr: 'sum by (namespace) (increase(evenkeel_sidecar_refresh_failures_total%(all)s[10m])) > 10' % $._matchers,
            'for': '5m',
            labels: { severity: 'critical' },
            annotations: {
              summary: 'The external provider cannot be read, and Cluster Autoscaler skips its loops.',
              description: 'Every loop is skipped while the provider behind the sidecar does not answer. This is safe, but nothing scales.',
            },
          },
          {
            alert: 'EvenkeelNodeGroupUnreadable',
            expr: 'max by (namespace) (evenkeel_sidecar_unreadable_node_groups%(all)s) > 0' % $._matchers,
            'for': '10m',
            labels: { severity: 'warning' },
            annotations: {
              summary: 'The external provider does not say how large a node group is.',
              description: '{{ $value }} node group(s) cannot be read, and the sidecar uses their last sizes and instances. The warnings of the page /status name the groups and the errors.',
            },
          },
          {
            alert: 'EvenkeelNodesWithheld',
            expr: 'max by (namespace) (evenkeel_sidecar_withheld_nodes%(all)s and on (namespace, pod) rate(evenkeel_sidecar_refresh_duration_seconds_count%(all)s[5m]) > 0) > 0' % $._matchers,
            'for': '20m',
            labels: { severity: 'warning' },
            annotations: {
              summary: 'Pods have waited for 20 minutes for nodes that the sidecar does not grant.',
              description: 'Cluster Autoscaler asks for {{ $value }} nodes that the sidecar withholds, for longer than nodes may take by default (--max-node-provision-time). The page /status says in its last decisions what it waits for.',
            },
          },
          {
            alert: 'EvenkeelGrantedInFull',
            expr: 'sum by (namespace) (increase(evenkeel_sidecar_full_grants_total%(all)s[10m])) > 0' % $._matchers,
            labels: { severity: 'warning' },
            annotations: {
              summary: 'An increase was granted in full, and its set may have become uneven.',
              description: 'Mostly the journal could not be written. The page /status lists these increases with their reasons.',
            },
          },
        ],
      },
    ],
  },
}
