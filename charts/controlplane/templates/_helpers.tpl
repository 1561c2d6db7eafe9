{{/*
Metadata of one object, as YAML without the key "metadata".
  root, name, labels, annotations; the last two can be missing
*/}}
{{- define "controlplane.meta" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- merge (dict "app" "controlplane") (.labels | default dict) .root.Values.commonLabels | toYaml | nindent 2 }}
{{- with merge (.annotations | default dict | deepCopy) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The image. */}}
{{- define "controlplane.image" -}}
{{- $path := compact (list (trimSuffix "/" .Values.registry) .Values.repository "controlplane") | join "/" }}
{{- .Values.image | default (printf "%s:%s" $path (.Values.imageTag | default .Chart.AppVersion)) }}
{{- end }}

{{/* "true" while the state is in SQLite. */}}
{{- define "controlplane.sqlite" -}}
{{- if not .Values.database.postgresSecret }}true{{ end }}
{{- end }}

{{/* The PersistentVolumeClaim of SQLite. */}}
{{- define "controlplane.claim" -}}
{{- .Values.database.sqlite.existingClaim | default "controlplane" }}
{{- end }}
