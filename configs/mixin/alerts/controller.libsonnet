{
  prometheusAlerts+:: {
    groups+: [
      {
        name: 'evenkeel-controller',
        rules: [
          {
            alert: 'EvenkeelReplicasUnplaced',
            expr: 'sum by (namespace, name) (evenkeel_balancer_unplaced_replicas%(all)s) > 0' % $._matchers,
            'for': '15m',
            labels: { severity: 'warning' },
            annotations: {
              summary: 'Balancer {{ $labels.namespace }}/{{ $labels.name }} asks for replicas that no target can run.',
              description: '{{ $value }} replica(s) cannot run. kubectl -n {{ $labels.namespace }} describe balancer {{ $labels.name }} says why: maximums, or pods that do not start.',
            },
          },
          {
            alert: 'EvenkeelReplicasNotRunning',
            expr: 'sum by (namespace, name) (evenkeel_balancer_requested_replicas%(all)s - evenkeel_balancer_running_replicas%(all)s) > 0' % $._matchers,
            'for': '30m',
            labels: { severity: 'warning' },
            annotations: {
              summary: 'Balancer {{ $labels.namespace }}/{{ $labels.name }} runs fewer replicas than it is asked for.',
              description: '{{ $value }} replica(s) are missing. The conditions Available and Progressing of the Balancer say why.',
            },
          },
          {
            alert: 'EvenkeelTargetUnreadable',
            expr: 'sum by (namespace, name) (evenkeel_balancer_unreadable_targets%(all)s + evenkeel_balancer_missing_targets%(all)s) > 0' % $._matchers,
            'for': '10m',
            labels: { severity: 'warning' },
            annotations: {
              summary: 'Targets of Balancer {{ $labels.namespace }}/{{ $labels.name }} cannot be read.',
              description: '{{ $value }} target(s) do not exist, have no Scale, or may not be read. The condition TargetsReadable of the Balancer has the remedy.',
            },
          },
          {
            alert: 'EvenkeelTargetContested',
            expr: 'sum by (namespace, name) (evenkeel_balancer_contested_targets%(all)s) > 0' % $._matchers,
            'for': '10m',
            labels: { severity: 'warning' },
            annotations: {
              summary: 'Something else also writes the sizes of targets of Balancer {{ $labels.namespace }}/{{ $labels.name }}.',
              description: '{{ $value }} target(s) are not written. Remove their HorizontalPodAutoscaler, or spec.replicas from their manifests.',
            },
          },
          {
            alert: 'EvenkeelBalancerMalformed',
            expr: 'sum by (namespace, name) (evenkeel_balancer_malformed%(all)s) > 0' % $._matchers,
            'for': '5m',
            labels: { severity: 'warning' },
            annotations: {
              summary: 'Balancer {{ $labels.namespace }}/{{ $labels.name }} does not parse.',
              description: 'It is not reconciled. Apply the definition of this version, and correct the object as its event says.',
            },
          },
          {
            alert: 'EvenkeelRescalesFail',
            expr: 'sum(increase(evenkeel_balancer_rescales_total{result="failure"%(more)s}[10m])) > 5' % $._matchers,
            'for': '5m',
            labels: { severity: 'warning' },
            annotations: {
              summary: 'Targets of Balancers cannot be scaled.',
              description: 'The API server refuses to write Scales. The condition Balanced of the Balancer names the target and the reason, such as a missing permission.',
            },
          },
          {
            alert: 'EvenkeelFederatedReplicasUnplaced',
            expr: 'sum by (namespace, name) (evenkeel_federation_unplaced_replicas%(all)s) > 0' % $._matchers,
            'for': '15m',
            labels: { severity: 'warning' },
            annotations: {
              summary: 'FederatedReplicaSet {{ $labels.namespace }}/{{ $labels.name }} asks for replicas that no cluster can run.',
              description: '{{ $value }} replica(s) cannot run. kubectl -n {{ $labels.namespace }} describe frs {{ $labels.name }} says why: maximums, or pods that do not start.',
            },
          },
          {
            alert: 'EvenkeelMemberClusterLost',
            expr: 'sum by (cluster) (evenkeel_member_state{state="Offline"%(more)s}) > 0' % $._matchers,
            'for': '5m',
            labels: { severity: 'warning' },
            annotations: {
              summary: 'Member cluster {{ $labels.cluster }} is lost, and its replicas run elsewhere.',
              description: 'Its API server does not answer, or does not accept the credentials. The conditions of the MemberCluster have the reason and the remedy.',
            },
          },
          {
            alert: 'EvenkeelFederatedWritesFail',
            expr: 'sum by (cluster) (increase(evenkeel_federation_writes_total{result="failure"%(more)s}[10m])) > 5' % $._matchers,
            'for': '5m',
            labels: { severity: 'warning' },
            annotations: {
              summary: 'Local objects cannot be written in member cluster {{ $labels.cluster }}.',
              description: 'The cluster refuses them or does not answer in time. The condition Settled of the FederatedReplicaSets has the message of the cluster.',
            },
          },
          {
            alert: 'EvenkeelFederatedWritesSlow',
            expr: 'histogram_quantile(0.99, sum by (le, cluster) (rate(evenkeel_federation_write_duration_seconds_bucket%(all)s[10m]))) > 10' % $._matchers,
            'for': '15m',
            labels: { severity: 'warning' },
            annotations: {
              summary: 'Local objects are written late in member cluster {{ $labels.cluster }}.',
              description: 'The cluster answers slowly, or more must be written than it takes. evenkeel_member_waiting_writes says how much waits, evenkeel_member_request_duration_seconds how long a call takes. Other clusters do not wait for it.',
            },
          },
          {
            alert: 'EvenkeelPodsOfNoSubset',
            expr: 'sum by (namespace, name) (evenkeel_workloadspread_unassigned_pods%(all)s) > 0' % $._matchers,
            'for': '30m',
            labels: { severity: 'warning' },
            annotations: {
              summary: 'Pods of the workload of WorkloadSpread {{ $labels.namespace }}/{{ $labels.name }} belong to no subset.',
              description: '{{ $value }} pod(s) run outside the subsets: no subset had room for them, or they were created while no webhook answered and their nodes match none. They are deleted first when the workload shrinks.',
            },
          },
          {
            alert: 'EvenkeelSubsetUnschedulable',
            expr: 'sum by (namespace, name) (evenkeel_workloadspread_marked_subsets%(all)s) > 0' % $._matchers,
            'for': '1h',
            labels: { severity: 'warning' },
            annotations: {
              summary: 'Subsets of WorkloadSpread {{ $labels.namespace }}/{{ $labels.name }} have had no room for pods for an hour.',
              description: 'New pods pass over {{ $value }} subset(s). The condition Schedulable of the subsets, and the events of the WorkloadSpread and its pods, say which and why.',
            },
          },
          {
            alert: 'EvenkeelPodWritesFail',
            expr: 'sum by (operation) (increase(evenkeel_workloadspread_pod_writes_total{result="failure"%(more)s}[10m])) > 5' % $._matchers,
            'for': '5m',
            labels: { severity: 'warning' },
            annotations: {
              summary: 'Pods of WorkloadSpreads cannot be written.',
              description: 'Operation {{ $labels.operation }} fails: mark writes deletion costs, delete lets pods move on that cannot be scheduled. The log of the controllers has the answer of the API server, such as a missing right.',
            },
          },
          {
            alert: 'EvenkeelControllerDoesNotLead',
            expr: 'absent(sum(leader_election_master_status{name="evenkeel-controller"%(more)s}) > 0)' % $._matchers,
            'for': '5m',
            labels: { severity: 'critical' },
            annotations: {
              summary: 'No evenkeel controller leads.',
              description: 'No Balancer, FederatedReplicaSet or WorkloadSpread is reconciled, or Prometheus does not get the metrics. See the Lease evenkeel-controller, the logs of the controllers, and the targets of Prometheus.',
            },
          },
          {
            alert: 'EvenkeelCertificateExpires',
            expr: 'evenkeel_certificate_expiry_timestamp_seconds{listener="metrics"%(more)s} - time() < 7 * 86400' % $._matchers,
            'for': '1h',
            labels: { severity: 'warning' },
            annotations: {
              summary: 'The certificate for the metrics of {{ $labels.instance }} expires within a week.',
              description: 'It is read again when its file changes. Check the renewal of the Secret for --metrics-cert.',
            },
          },
          {
            alert: 'EvenkeelWebhookCertificateExpires',
            expr: 'evenkeel_certificate_expiry_timestamp_seconds{listener="webhooks"%(more)s} - time() < 7 * 86400' % $._matchers,
            'for': '1h',
            labels: { severity: 'critical' },
            annotations: {
              summary: 'The certificate for the webhooks of {{ $labels.instance }} expires within a week.',
              description: 'It should have been replaced long ago. After that the API server calls no webhook, and with failurePolicy Fail no pod of a WorkloadSpread is created. See the log of the controllers, and the Secret evenkeel-webhooks or the files of --webhook-cert.',
            },
          },
          {
            alert: 'EvenkeelWebhookCertificateFails',
            expr: 'max(evenkeel_webhook_certificate_failing%(all)s) > 0' % $._matchers,
            'for': '15m',
            labels: { severity: 'warning' },
            annotations: {
              summary: "The Secret with the certificate of evenkeel's webhooks cannot be read or written.",
              description: 'The certificate in memory is served until it expires, and is not replaced. The log of the controllers has the reason, such as a missing right.',
            },
          },
          {
            alert: 'EvenkeelWebhooksIncomplete',
            expr: 'min by (configuration) (evenkeel_webhook_configuration_ready%(all)s) < 1' % $._matchers,
            'for': '15m',
            labels: { severity: 'warning' },
            annotations: {
              summary: 'The {{ $labels.configuration }} webhook configuration of evenkeel is missing or not complete.',
              description: 'Pods of WorkloadSpreads are not put into subsets when they are created, or not counted when they are deleted. The log of the controllers says what is missing. Apply the manifests of this version.',
            },
          },
          {
            alert: 'EvenkeelWebhooksContested',
            expr: 'sum by (configuration) (increase(evenkeel_webhook_configuration_repairs_total%(all)s[1h])) > 10' % $._matchers,
            'for': '15m',
            labels: { severity: 'warning' },
            annotations: {
              summary: 'Something else keeps changing the {{ $labels.configuration }} webhook configuration of evenkeel.',
              description: 'It was restored {{ $value }} times within an hour. Remove caBundle, rules and namespaceSelector from what is applied.',
            },
          },
        ],
      },
    ],
  },
}
