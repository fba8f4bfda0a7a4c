{
  // The same records from both components: a panel or an alert need not know which runs. All labels stay but those of the
  // replica: the selector may ask for them.
  local evenness(component) = {
    record: 'set:evenkeel_uneven_nodes:max',
    expr: 'max without (instance, pod) (evenkeel_%s_set_uneven_nodes%s)' % [component, $._matchers.all],
  },
  prometheusRules+:: {
    groups+: [
      { name: 'evenkeel-expander.rules', rules: [evenness('expander')] },
      {
        name: 'evenkeel-sidecar.rules',
        rules: [
          evenness('sidecar'),
          {
            record: 'set:evenkeel_pending_pod_seconds:5m',
            expr: '300 * max without (instance, pod) (avg_over_time(evenkeel_sidecar_set_withheld_pods%(all)s[5m]))' % $._matchers,
          },
        ],
      },
    ],
  },
}
