{
  prometheusAlerts+:: {
    groups+: [
      {
        name: 'evenkeel-expander',
        rules: [
          {
            alert: 'EvenkeelExpanderAbsent',
            expr: 'absent(evenkeel_expander_node_groups%(all)s)' % $._matchers,
            'for': '5m',
            labels: { severity: 'warning' },
            annotations: {
              summary: 'No evenkeel expander runs.',
              description: 'Cluster Autoscaler goes on with the strategies behind grpc, waits up to five seconds before each increase, and sets become uneven. Or Prometheus does not get the metrics.',
            },
          },
          {
            alert: 'EvenkeelExpanderNotAsked',
            expr: 'sum(increase(cluster_autoscaler_scaled_up_nodes_total%(all)s[30m])) > 0 and on () sum(increase(evenkeel_expander_decisions_total%(all)s[30m])) == 0' % $._matchers,
            'for': '5m',
            labels: { severity: 'warning' },
            annotations: {
              summary: 'Cluster Autoscaler adds nodes and does not ask evenkeel where.',
              description: 'Its --expander has no grpc, or the connection fails, which it logs at -v=4 only. Prometheus must scrape Cluster Autoscaler for this alert.',
            },
          },
          {
            alert: 'EvenkeelExpanderFails',
            expr: 'sum by (namespace) (increase(evenkeel_expander_decisions_total{result="failed"%(more)s}[10m])) > 3' % $._matchers,
            'for': '5m',
            labels: { severity: 'warning' },
            annotations: {
              summary: 'The expander answers Cluster Autoscaler with errors.',
              description: 'The strategies behind grpc decide instead. The page /status and the log say what fails.',
            },
          },
          {
            alert: 'EvenkeelExpanderSlow',
            expr: 'histogram_quantile(0.99, sum by (namespace, pod, le) (rate(evenkeel_grpc_request_duration_seconds_bucket{method="BestOptions"%(more)s}[10m]))) > 2.5 and on (namespace, pod) evenkeel_expander_node_groups%(all)s' % $._matchers,
            'for': '10m',
            labels: { severity: 'warning' },
            annotations: {
              summary: 'The expander needs half of the time that Cluster Autoscaler waits, or more.',
              description: 'After five seconds Cluster Autoscaler decides without it.',
            },
          },
          {
            alert: 'EvenkeelExpanderStatusOld',
            expr: 'time() - max by (namespace) (evenkeel_expander_status_timestamp_seconds%(all)s) > 600' % $._matchers,
            'for': '5m',
            labels: { severity: 'warning' },
            annotations: {
              summary: 'The expander has no status of Cluster Autoscaler of the last ten minutes.',
              description: 'Cluster Autoscaler stands still, or its status cannot be read. Until it can, sizes are those of the last status and the answers since.',
            },
          },
        ],
      },
    ],
  },
}
