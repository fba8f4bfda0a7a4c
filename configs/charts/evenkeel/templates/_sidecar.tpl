{{/* evenkeel.sidecar.containers are those that start before Cluster Autoscaler: the fake cloud, if there is one, and the sidecar. */}}
{{- define "evenkeel.sidecar.containers" -}}
{{- with .Values.sidecar -}}
{{- if .fakeCloud.enabled }}
# The cloud: has the fleet in memory, and creates a Node object for each of its machines.
- name: fake-cloud
  {{- include "evenkeel.image" $ | nindent 2 }}
  restartPolicy: Always
  args:
  - fake-cloud
  - --config=/fleet/fleet.yaml
  - --address=127.0.0.1:8090
  - --kubeconfig=/fleet/kubeconfig
  - --metrics-address=127.0.0.1:8091
  resources:
    requests: {cpu: 50m, memory: 64Mi}
    limits: {memory: 512Mi}
  securityContext:
    {{- include "evenkeel.confined" . | nindent 4 }}
  volumeMounts:
  - {name: fleet, mountPath: /fleet, readOnly: true}
{{- end }}
# Starts before Cluster Autoscaler and ends after it (a sidecar container, Kubernetes 1.29 and later).
- name: evenkeel
  {{- include "evenkeel.image" $ | nindent 2 }}
  restartPolicy: Always
  args:
  - sidecar
  - --backend-address={{ .fakeCloud.enabled | ternary "127.0.0.1:8090" .backend.address }}
  {{- if .backend.tlsSecretName }}
  - --backend-cacert=/backend/ca.crt
  {{- if .backend.mutualTLS }}
  - --backend-cert=/backend/client.crt
  - --backend-key=/backend/client.key
  {{- end }}
  {{- end }}
  - --expander-cert=/tls/server.crt
  - --expander-key=/tls/server.key
  # Metrics and status with TLS, for users whom the API server allows to get /metrics or /status; probes in plain text. Cluster
  # Autoscaler uses 8085.
  - --metrics-address=:8443
  - --health-address=:8088
  - --namespace=$(POD_NAMESPACE)
  {{- with .zonalShiftConfigMap }}
  - --zonal-shift-configmap={{ . }}
  {{- end }}
  {{- if ne .journalConfigMap "evenkeel-sidecar" }}
  - --journal-configmap={{ .journalConfigMap }}
  {{- end }}
  {{- if ne .autoscaler.leaseName "cluster-autoscaler" }}
  - --leader-elect-resource-name={{ .autoscaler.leaseName }}
  {{- end }}
  {{- if .podConditions }}
  - --pod-provisioning-conditions
  {{- end }}
  {{- include "evenkeel.args" .extraArgs | nindent 2 }}
  env:
  - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
  - {name: POD_UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}
  - {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
  ports:
  - {name: sidecar, containerPort: 8443}
  - {name: health, containerPort: 8088}
  {{- include "evenkeel.probes" . | nindent 2 }}
  {{- include "evenkeel.resources" .resources | nindent 2 }}
  securityContext:
    {{- include "evenkeel.confined" . | nindent 4 }}
  volumeMounts:
  - {name: tls, mountPath: /tls, readOnly: true}
  {{- if .backend.tlsSecretName }}
  - {name: backend, mountPath: /backend, readOnly: true}
  {{- end }}
{{- end }}
{{- end -}}

{{/* evenkeel.sidecar.volumes are those of the containers above, and what Cluster Autoscaler itself reads. */}}
{{- define "evenkeel.sidecar.volumes" -}}
{{- with .Values.sidecar -}}
- name: cloud-config
  configMap: {name: cluster-autoscaler-cloud-config}
- name: tls
  secret:
    secretName: {{ .tls.secretName }}
    items: [{key: server.crt, path: server.crt}, {key: server.key, path: server.key}]
- name: authority
  secret:
    secretName: {{ .tls.secretName }}
    items: [{key: ca.crt, path: ca.crt}]
{{- if .backend.tlsSecretName }}
- name: backend
  secret: {secretName: {{ .backend.tlsSecretName }}}
{{- end }}
{{- if .fakeCloud.enabled }}
- name: fleet
  configMap: {name: fake-cloud}
{{- end }}
{{- end -}}
{{- end -}}

{{/* evenkeel.sidecar.mounts are those of Cluster Autoscaler. */}}
{{- define "evenkeel.sidecar.mounts" -}}
- {name: cloud-config, mountPath: /config, readOnly: true}
# Only the authority: Cluster Autoscaler does not need the key of the server.
- {name: authority, mountPath: /tls, readOnly: true}
{{- end -}}

{{/* evenkeel.sidecar.selector finds the pods of Cluster Autoscaler: a mapping in one line. */}}
{{- define "evenkeel.sidecar.selector" -}}
{{- with .Values.sidecar.autoscaler -}}
{{- if .enabled -}}
{app.kubernetes.io/name: cluster-autoscaler}
{{- else -}}
{{- $parts := list -}}
{{- range $key, $value := .selector }}{{ $parts = append $parts (printf "%s: %s" $key (quote $value)) }}{{ end -}}
{ {{- join ", " $parts -}} }
{{- end -}}
{{- end -}}
{{- end -}}

{{/* evenkeel.sidecar.name is that of what the chart adds to the pods of Cluster Autoscaler. Its own chart uses other names. */}}
{{- define "evenkeel.sidecar.name" -}}
{{- .Values.sidecar.autoscaler.enabled | ternary "cluster-autoscaler" "evenkeel-sidecar" -}}
{{- end -}}
