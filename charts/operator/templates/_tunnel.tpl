{{/*
Tunnels between workstations and the cluster: tunnel-api and the tunnel proxies.
*/}}

{{/* "true" when they are installed, which is the default for values of an older release. */}}
{{- define "operator.tunnels" -}}
{{- if dig "enabled" true (.Values.tunnel | default dict) }}true{{ end }}
{{- end }}

{{/* The values of tunnel-api, as JSON. */}}
{{- define "operator.tunnelAPI" -}}
{{- include "operator.withDefaults" (dict "of" (dig "api" dict (.Values.tunnel | default dict)) "defaults" (dict
      "replicas" 1 "imagePullPolicy" "IfNotPresent" "logLevel" "info" "podDisruptionBudget" dict
      "resources" (dict "requests" (dict "memory" "128Mi") "limits" (dict "memory" "1Gi")))) }}
{{- end }}

{{/* The values of the tunnel proxies, as JSON. */}}
{{- define "operator.tunnelProxy" -}}
{{- include "operator.withDefaults" (dict "of" (dig "proxy" dict (.Values.tunnel | default dict)) "defaults" (dict
      "replicas" 2 "imagePullPolicy" "IfNotPresent" "logLevel" "info" "podDisruptionBudget" dict
      "resources" (dict "requests" (dict "memory" "128Mi") "limits" (dict "memory" "2Gi")))) }}
{{- end }}

{{/* The settings of both, as JSON. */}}
{{- define "operator.tunnelConfig" -}}
{{- include "operator.withDefaults" (dict "of" (dig "config" dict (.Values.tunnel | default dict)) "defaults" (dict
      "cidrs" "" "disableSSH" false "disableXAP" false "anonymousSOCKS5" false "socks5Loopback" "auto" "apiServer" false)) }}
{{- end }}

{{/* The addresses that workstations may reach: the text of the file cidr.yaml, with the words "any" and "cluster". */}}
{{- define "operator.tunnelCIDRs" -}}
{{- (include "operator.tunnelConfig" . | fromJson).cidrs }}
{{- end }}

{{/* The same for the rights of the proxies. Empty means cluster in a new installation, and a template
cannot know whether this is one. */}}
{{- define "operator.tunnelReach" -}}
{{- $cidrs := include "operator.tunnelCIDRs" . | trim }}
{{- if $cidrs }}{{ $cidrs }}{{ else if eq (include "operator.securityDefaults" .) "earlier" }}any{{ else }}cluster{{ end }}
{{- end }}

{{/* "true" when the proxies need the endpoints of all Services: where not everything is reached. */}}
{{- define "operator.tunnelEndpoints" -}}
{{- if or .Values.allowedNamespaces (ne (include "operator.tunnelReach" .) "any") }}true{{ end }}
{{- end }}

{{/* "true" when the proxies need the addresses of nodes: where Services and pods alone are reached. */}}
{{- define "operator.tunnelNodes" -}}
{{- $reach := include "operator.tunnelReach" . }}
{{- if or (eq $reach "cluster") (contains "reach:" $reach) }}true{{ end }}
{{- end }}

{{/* The stream of records of connections, as JSON. */}}
{{- define "operator.auditStream" -}}
{{- include "operator.withDefaults" (dict "of" (dig "audit" "stream" dict (.Values.tunnel | default dict)) "defaults" (dict
      "enabled" false "size" "64Mi" "age" "720h" "readers" list)) }}
{{- end }}

{{/* "true" when there is to be one. */}}
{{- define "operator.auditStreamOn" -}}
{{- if and (include "operator.tunnels" .) (include "operator.auditStream" . | fromJson).enabled }}true{{ end }}
{{- end }}

{{/* The addresses that workstations may reach: where they are mounted, as a list item. */}}
{{- define "operator.tunnelCIDRsMount" -}}
- name: cidrs
  mountPath: /etc/tunnel
  readOnly: true
{{- end }}

{{/* The volume, as a list item. */}}
{{- define "operator.tunnelCIDRsVolume" -}}
- name: cidrs
  configMap:
    name: tunnel-cidrs
    items:
      - key: cidr.yaml
        path: cidr.yaml
{{- end }}

{{/* The token by which the manager shows tunnel proxies who it is, as list items. */}}
{{- define "operator.tunnelProxyTokenMount" -}}
- name: tunnel-proxy-token
  mountPath: /var/run/secrets/tunnel-proxy
  readOnly: true
{{- end }}
{{- define "operator.tunnelProxyTokenVolume" -}}
- name: tunnel-proxy-token
  projected:
    sources:
      - serviceAccountToken:
          path: token
          audience: tunnel-proxy
          expirationSeconds: 3600
{{- end }}
