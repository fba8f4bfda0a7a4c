{{/* evenkeel.namespace is that of a component: (list . "controller"). */}}
{{- define "evenkeel.namespace" -}}
{{- $root := index . 0 -}}
{{- (index $root.Values (index . 1)).namespace | default $root.Release.Namespace -}}
{{- end -}}

{{/* evenkeel.labels continues a mapping in one line with the labels that all objects have. */}}
{{- define "evenkeel.labels" -}}
{{- range $key, $value := .Values.commonLabels }}, {{ $key }}: {{ $value | quote }}{{ end -}}
{{- end -}}

{{/* evenkeel.podLabels does so with the labels of the pods of a component. */}}
{{- define "evenkeel.podLabels" -}}
{{- range $key, $value := .podLabels }}, {{ $key }}: {{ $value | quote }}{{ end -}}
{{- end -}}

{{/* evenkeel.image is the image, and when it is pulled. */}}
{{- define "evenkeel.image" -}}
{{- with .Values.image -}}
image: {{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- with .pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* evenkeel.args are further flags. */}}
{{- define "evenkeel.args" -}}
{{- range . }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{/* evenkeel.amounts is a mapping in one line. */}}
{{- define "evenkeel.amounts" -}}
{{- $parts := list -}}
{{- range $key, $value := . -}}
{{- $text := toString $value -}}
{{- if not (regexMatch "^[0-9.]+[A-Za-z]+$" $text) }}{{ $text = quote $text }}{{ end -}}
{{- $parts = append $parts (printf "%s: %s" $key $text) -}}
{{- end -}}
{ {{- join ", " $parts -}} }
{{- end -}}

{{- define "evenkeel.resources" -}}
resources:
{{- with .requests }}
  requests: {{ include "evenkeel.amounts" . }}
{{- end }}
{{- with .limits }}
  limits: {{ include "evenkeel.amounts" . }}
{{- end }}
{{- end -}}

{{/* evenkeel.confined is the security context of a container. */}}
{{- define "evenkeel.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* evenkeel.probes are those of the program, on its port health. */}}
{{- define "evenkeel.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: health}
  periodSeconds: 1
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: health}
readinessProbe:
  httpGet: {path: /readyz, port: health}
{{- end -}}

{{/* evenkeel.scheduling is where the pods of a component run: (list . "controller" "LABELS"). */}}
{{- define "evenkeel.scheduling" -}}
{{- $component := index (index . 0).Values (index . 1) -}}
{{- $labels := index . 2 -}}
# The replicas run on different nodes, in different zones if they can.
topologySpreadConstraints:
{{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
- maxSkew: 1
  topologyKey: {{ . }}
  whenUnsatisfiable: {{ $component.spread }}
  labelSelector:
    matchLabels: {{ $labels }}
{{- end }}
{{- with $component.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with $component.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with $component.affinity }}
affinity: {{ toJson . }}
{{- end }}
{{- with (index . 0).Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- end -}}

{{/* evenkeel.from restricts a rule of a NetworkPolicy to peers. */}}
{{- define "evenkeel.from" -}}
{{- with . }}
  from: {{ toJson . }}
{{- end }}
{{- end -}}

{{/* evenkeel.annotations are those of the metadata of an object. */}}
{{- define "evenkeel.annotations" -}}
{{- with . }}
annotations: {{ toJson . }}
{{- end }}
{{- end -}}
