{{/*
The traffic manager, and the container of forks that records requests.
*/}}

{{/* The values of the traffic manager, as JSON. */}}
{{- define "operator.trafficManagerValues" -}}
{{- include "operator.withDefaults" (dict "of" .Values.trafficManager "defaults" (dict
      "enabled" true "replicas" 2 "imagePullPolicy" "IfNotPresent" "logLevel" "info" "storeSize" "512Mi"
      "resources" (dict "requests" (dict "memory" "128Mi") "limits" (dict "memory" "2Gi")))) }}
{{- end }}

{{/* Whether there is a traffic manager: "true" or empty. */}}
{{- define "operator.trafficManager" -}}
{{- if (include "operator.trafficManagerValues" . | fromJson).enabled }}true{{ end }}
{{- end }}

{{/* The token that its readers among the operator's programs show. */}}
{{- define "operator.trafficTokenMount" -}}
- name: traffic-manager-token
  mountPath: /var/run/secrets/traffic-manager
  readOnly: true
{{- end }}
{{- define "operator.trafficTokenVolume" -}}
- name: traffic-manager-token
  projected:
    sources:
      - serviceAccountToken:
          path: token
          audience: traffic.signadot.com
          expirationSeconds: 3600
{{- end }}
