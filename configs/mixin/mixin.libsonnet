(import 'alerts/controller.libsonnet') +
(import 'alerts/expander.libsonnet') +
(import 'alerts/linked.libsonnet') +
(import 'alerts/sidecar.libsonnet') +
(import 'alerts/runbook.libsonnet') +
(import 'dashboards/controllers.libsonnet') +
(import 'dashboards/decision.libsonnet') +
(import 'dashboards/fleet.libsonnet') +
(import 'dashboards/sets.libsonnet') +
(import 'rules/sets.libsonnet') +
(import 'config.libsonnet')
