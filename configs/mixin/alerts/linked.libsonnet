{
  prometheusAlerts+:: {
    groups+: [
      {
        name: 'evenkeel-linked',
        rules: [
          {
            alert: 'EvenkeelLinkedGroupsLeftOut',
            expr: 'sum by (namespace) (increase(evenkeel_linked_left_out_node_groups_total%(all)s[30m])) > 0' % $._matchers,
            'for': '5m',
            labels: { severity: 'warning' },
            annotations: {
              summary: 'Node groups get no share of scale-ups, because the cloud does not say how large they are.',
              description: 'The others of their sets get the nodes. The page /evenkeel of Cluster Autoscaler names the groups and the errors.',
            },
          },
          {
            alert: 'EvenkeelLinkedGroupsNotCompared',
            expr: 'max by (namespace) (evenkeel_linked_incomparable_node_groups%(all)s) > 0' % $._matchers,
            'for': '30m',
            labels: { severity: 'warning' },
            annotations: {
              summary: 'Node groups are balanced with none, because they have no template.',
              description: '{{ $value }} node group(s) have no template that can be compared. The page /evenkeel of Cluster Autoscaler names them and the errors.',
            },
          },
          {
            alert: 'EvenkeelLinkedPoliciesRefused',
            expr: 'max by (namespace) (evenkeel_linked_refused_policies%(all)s) > 0' % $._matchers,
            'for': '10m',
            labels: { severity: 'warning' },
            annotations: {
              summary: 'Newer policies of sets are wrong and not used.',
              description: 'Those before go on. The log of Cluster Autoscaler names the field, its value and the remedy.',
            },
          },
        ],
      },
    ],
  },
}
