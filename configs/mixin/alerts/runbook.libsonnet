// Each alert links to its page.
{
  local linked(rule) = rule {
    annotations+: { runbook_url: $._config.runbookURL % std.asciiLower(rule.alert) },
  },
  prometheusAlerts+:: {
    groups: [group { rules: std.map(linked, group.rules) } for group in super.groups],
  },
}
