local panels = import 'panels.libsonnet';

// What all node groups together do, by the sidecar or by the expander.
{
  grafanaDashboards+:: {
    local m = $._matchers,
    'evenkeel-fleet.json': panels.dashboard(
      'evenkeel-fleet',
      'evenkeel / Fleet',
      'Node groups and nodes that the sidecar or the expander of evenkeel balances.',
      [
        panels.number('Node groups', 'Node groups that Cluster Autoscaler can grow.', 'short', 'max(evenkeel_sidecar_node_groups%(all)s or evenkeel_expander_node_groups%(all)s)' % m, bad=false),
        panels.number('Uneven sets', 'Sets whose sizes differ by more than levelling would make them. The page /status says why.', 'short', 'max(evenkeel_sidecar_uneven_sets%(all)s or evenkeel_expander_uneven_sets%(all)s)' % m),
        panels.number('Groups left alone', 'Node groups that get no nodes now because the cloud refused or did not deliver.', 'short', 'max(evenkeel_sidecar_backed_off_node_groups%(all)s or evenkeel_expander_backed_off_node_groups%(all)s)' % m),
        panels.number('Zones shifted away', 'Zones, or values of other labels, that get no nodes now.', 'short', 'max(count by (pod) (evenkeel_sidecar_zone_shifted%(all)s or evenkeel_expander_zone_shifted%(all)s)) or vector(0)' % m),
      ],
      [
        panels.graph('Nodes on their way', 'Nodes that are ordered and not ready yet.', 'short', [
          ['max by (namespace) (evenkeel_sidecar_in_flight_nodes%(all)s or evenkeel_expander_in_flight_nodes%(all)s)' % m, '{{namespace}}'],
        ]),
        panels.graph('Oldest node on its way', 'Time since it was ordered, while the sidecar balances.', 's', [
          ['max by (namespace) (evenkeel_sidecar_oldest_in_flight_seconds%(all)s)' % m, '{{namespace}}'],
        ]),
        panels.graph('Node groups held back', 'Node groups that do not get what they could.', 'short', [
          ['max(evenkeel_sidecar_backed_off_node_groups%(all)s or evenkeel_expander_backed_off_node_groups%(all)s)' % m, 'left alone'],
          ['max(evenkeel_sidecar_limited_node_groups%(all)s or evenkeel_expander_limited_node_groups%(all)s)' % m, 'one node at most'],
          ['max(evenkeel_sidecar_held_node_groups%(all)s)' % m, 'told to be at their minimum'],
          ['max(evenkeel_sidecar_returning_node_groups%(all)s or evenkeel_expander_returning_node_groups%(all)s)' % m, 'catch up after a shift'],
          ['max(evenkeel_sidecar_unreadable_node_groups%(all)s)' % m, 'cannot be read'],
        ]),
        panels.graph('Nodes asked for and granted', 'How many nodes a minute Cluster Autoscaler asked the sidecar for, and how many it ordered.', 'short', [
          ['60 * sum(rate(evenkeel_sidecar_asked_nodes_total%(all)s[$__rate_interval]))' % m, 'asked for'],
          ['60 * sum(rate(evenkeel_sidecar_granted_nodes_total%(all)s[$__rate_interval]))' % m, 'granted'],
        ]),
        panels.graph('Nodes taken back', 'Nodes taken back an hour before they were ready, by reason.', 'short', [
          ['3600 * sum by (reason) (rate(evenkeel_sidecar_taken_back_nodes_total%(all)s[$__rate_interval]))' % m, '{{reason}}'],
        ]),
        panels.graph('Times groups were left alone', 'How often an hour the cloud refused or did not deliver, so that a group was left alone.', 'short', [
          ['3600 * sum(rate(evenkeel_sidecar_member_backoffs_total%(all)s[$__rate_interval]))' % m, 'left alone'],
        ]),
      ],
    ),
  },
}
