local panels = import 'panels.libsonnet';

// How level the sets are, and what keeps them from it.
{
  grafanaDashboards+:: {
    local m = $._matchers,
    'evenkeel-sets.json': panels.dashboard(
      'evenkeel-sets',
      'evenkeel / Sets',
      'How level the sets of similar node groups are, and what keeps them from being so.',
      [
        panels.number('Uneven sets', 'Sets whose sizes differ by more than levelling would make them.', 'short', 'max(evenkeel_sidecar_uneven_sets%(all)s or evenkeel_expander_uneven_sets%(all)s)' % m),
        panels.number('Sets that cannot grow', 'Sets left out of the answers because all their members are left alone.', 'short', 'max(evenkeel_sidecar_backed_off_sets%(all)s)' % m),
        panels.number('Policies refused', '1 while newer policies of sets are not used because they are wrong.', 'short', 'max(evenkeel_sidecar_refused_policies%(all)s or evenkeel_expander_refused_policies%(all)s)' % m),
        panels.number('Marks of zones refused', '1 while the newest marks of zones cannot be used.', 'short', 'max(evenkeel_sidecar_zonal_shift_invalid%(all)s or evenkeel_expander_zonal_shift_invalid%(all)s)' % m),
      ],
      [
        panels.graph('Uneven sets', 'Sets whose sizes differ by more than levelling would make them, within the maximum sizes.', 'short', [
          ['max by (namespace) (evenkeel_sidecar_uneven_sets%(all)s)' % m, 'sidecar in {{namespace}}'],
          ['max by (namespace) (evenkeel_expander_uneven_sets%(all)s)' % m, 'expander in {{namespace}}'],
        ]),
        panels.graph('Nodes in the wrong node group', 'By the first node group of each set: nodes that would be in other groups if its nodes were shared anew.', 'short', [
          ['max by (set) (set:evenkeel_uneven_nodes:max%(all)s)' % m, '{{set}}'],
        ]),
        panels.graph('Seconds that pods waited', 'By the first node group of each set: in five minutes, the sum over pods that wait for nodes the sidecar does not grant yet.', 's', [
          ['max by (set) (set:evenkeel_pending_pod_seconds:5m%(all)s)' % m, '{{set}}'],
        ]),
        panels.graph('What made sets uneven', 'How often an hour an increase was granted in full, or a set was let become uneven.', 'short', [
          ['3600 * sum(rate(evenkeel_sidecar_full_grants_total%(all)s[$__rate_interval]))' % m, 'granted in full'],
          ['3600 * sum(rate(evenkeel_sidecar_uneven_sets_total%(all)s[$__rate_interval]))' % m, 'no member got smaller in time'],
        ]),
        panels.graph('Zones shifted away', '1 for each zone, or value of another label, that gets no nodes.', 'short', [
          ['max by (topology_key, domain) (evenkeel_sidecar_zone_shifted%(all)s or evenkeel_expander_zone_shifted%(all)s)' % m, '{{domain}}'],
        ]),
      ],
    ),
  },
}
