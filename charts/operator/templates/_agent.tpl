{{/*
The agent: the link to a control plane.
*/}}

{{/* "true" when it is installed. */}}
{{- define "operator.agent" -}}
{{- if and (dig "enabled" false (.Values.agent | default dict)) (not .Values.disableAgent) }}true{{ end }}
{{- end }}

{{/* Its values, as JSON. */}}
{{- define "operator.agentValues" -}}
{{- include "operator.withDefaults" (dict "of" (omit (.Values.agent | default dict) "clusterToken" "enabled") "defaults" (dict
      "imagePullPolicy" "IfNotPresent" "logLevel" "info"
      "resources" (dict "requests" (dict "memory" "128Mi") "limits" (dict "memory" "2Gi")))) }}
{{- end }}

{{/* Its rights of one scope, from files/agent-rules.yaml: root, scope. */}}
{{- define "operator.agentRules" -}}
{{- toYaml (get (.root.Files.Get "files/agent-rules.yaml" | fromYaml) .scope) }}
{{- end }}

{{/* The authorities of the control plane, as PEM; empty: none, or those of the system. */}}
{{- define "operator.controlPlaneCA" -}}
{{- $ca := .Values.controlPlane.ca | default "" }}
{{- if ne $ca "system" }}{{ $ca }}{{ end }}
{{- end }}
