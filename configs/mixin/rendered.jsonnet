// What the Helm chart contains of the mixin.
local mixin = import 'mixin.libsonnet';

{
  groups: mixin.prometheusAlerts.groups + mixin.prometheusRules.groups,
  dashboards: mixin.grafanaDashboards,
}
