(import 'alerts/controller.libsonnet') +
(import 'alerts/expander.libsonnet') +
(import 'alerts/sidecar.libsonnet') +
(import 'alerts/runbook.libsonnet') +
(import 'config.libsonnet')
