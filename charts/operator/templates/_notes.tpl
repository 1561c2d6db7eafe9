{{/*
The part of the notes about values without effect in this version.
*/}}

{{/*
The names of all values that are set and have no effect, one on each line. The defaults of
values.yaml do not count as set; "defaults" repeats them, as JSON.
*/}}
{{- define "operator.idleValues" -}}
{{- $all := pick .Values "jobExecutor" "previewServer" }}
{{- $agent := include "operator.agent" . }}
{{- if $agent }}{{ $_ := set $all "previewServer" (omit (.Values.previewServer | default dict) "enabled" "customDomain") }}{{ end }}
{{- if not $agent }}{{ $_ := set $all "allowOrphanedResources" .Values.allowOrphanedResources }}{{ end }}
{{- range $mesh := list "istio" "linkerd" }}
{{- $of := get $.Values $mesh }}
{{- $idle := omit $of "enabled" }}
{{- if $of.enabled }}
{{- $idle = pick $of "operator" "gatewayAPI" }}
{{- $idle = omit $idle "operator" }}
{{- end }}
{{- if ($of.gatewayAPI | default dict).enabled }}{{ $idle = omit $idle "gatewayAPI" }}{{ end }}
{{- $_ := set $all $mesh $idle }}
{{- end }}
{{- $_ := set $all "agent" (ternary dict (omit (.Values.agent | default dict) "clusterToken" "enabled") (not (empty $agent))) }}
{{- $tunnel := .Values.tunnel | default dict }}
{{- $_ := set $all "tunnel" (dict "auditor" (dig "auditor" dict $tunnel) "config" (pick (dig "config" dict $tunnel) "externalDNS")) }}
{{- $controlPlane := omit .Values.controlPlane "clusterToken" "tokenSecret" }}
{{- $_ := set $all "controlPlane" (ternary (omit $controlPlane "proxy" "podLogAccess" "tunnelAddr" "tunnelTLS" "ca" "roleBindings") $controlPlane (not (empty $agent))) }}
{{- $_ := set $all "routeServer" (pick .Values.routeServer "legacyRoutesAPI" "logLevel") }}
{{- $_ := set $all "ioSidecar" (pick (.Values.ioSidecar | default dict) "logLevel") }}
{{- $_ := set $all "routeInit" (pick .Values.routeInit "legacy") }}
{{- $_ := set $all "routeSidecar" (pick .Values.routeSidecar "legacy" "logLevel") }}
{{- $defaults := dict
      "allowOrphanedResources" "false"
      "agent.imagePullPolicy" `"IfNotPresent"`
      "agent.logLevel" `"info"`
      "agent.resources" `{"limits":{"memory":"2Gi"},"requests":{"memory":"128Mi"}}`
}}
{{- include "operator.setValues" (dict "values" $all "prefix" "" "defaults" $defaults) | trim }}
{{- end }}

{{/*
The names of the values below a map that are neither empty nor the default.
  values     the map
  prefix     the prefix of each of its keys
  defaults   the defaults as JSON, by name
*/}}
{{- define "operator.setValues" -}}
{{- $wholes := list "resources" "strategy" "nodeAffinity" "podLabels" "podAnnotations" "additionalLabels" "additionalAnnotations" }}
{{- range $key, $value := .values }}
{{- $name := print $.prefix $key }}
{{- $json := toJson $value }}
{{- if and (kindIs "map" $value) (not (has $key $wholes)) }}
{{- include "operator.setValues" (dict "values" $value "prefix" (print $name ".") "defaults" $.defaults) }}
{{- else if not (has $json (list "{}" "[]" "null" `""` (get $.defaults $name))) }}
{{- print $name "\n" }}
{{- end }}
{{- end }}
{{- end }}
