{{/*
The IO context server and the settings of the pods that run units of resources.
*/}}

{{/*
Values completed with defaults, as JSON: helm upgrade --reuse-values passes only the values that
the older release had.
  of         the values
  defaults   those of values.yaml
*/}}
{{- define "operator.withDefaults" -}}
{{- $of := deepCopy (.of | default dict) }}
{{- range $key, $value := .defaults }}
{{- if kindIs "invalid" (index $of $key) }}
{{- $_ := set $of $key $value }}
{{- end }}
{{- end }}
{{- toJson $of }}
{{- end }}

{{/* The values of the IO context server, as JSON. */}}
{{- define "operator.ioContextServer" -}}
{{- include "operator.withDefaults" (dict "of" .Values.ioContextServer "defaults" (dict
      "replicas" 1 "imagePullPolicy" "IfNotPresent" "logLevel" "info" "podDisruptionBudget" dict
      "resources" (dict "requests" (dict "memory" "128Mi") "limits" (dict "memory" "1Gi")))) }}
{{- end }}

{{/* The values of a container that is put into pods of units, as JSON. */}}
{{- define "operator.ioContainer" -}}
{{- include "operator.withDefaults" (dict "of" . "defaults" (dict "imagePullPolicy" "IfNotPresent" "imagePullSecret" "" "resources" dict)) }}
{{- end }}

{{/* How units run, as JSON. */}}
{{- define "operator.workflows" -}}
{{- $of := .Values.workflows | default dict }}
{{- dict
      "unitDeadline" (dig "unitDeadline" nil $of | default "30m")
      "parallelUnits" (dig "parallelUnits" nil $of | default 10 | int)
      "runner" (dict "allow" (dig "runner" "allow" nil $of | default list)) | toJson }}
{{- end }}

{{/* How jobs run, as JSON. */}}
{{- define "operator.jobs" -}}
{{- $of := .Values.jobs | default dict }}
{{- dict
      "allow" (dig "allow" nil $of | default list)
      "keepResults" (dig "keepResults" nil $of | default "15m")
      "artifactsPerPod" (dig "artifactsPerPod" nil $of | default "1Gi")
      "keptPods" (dig "keptPods" nil $of | default 0)
      "keepJobs" (dig "keepJobs" nil $of | default "24h")
      "maxJobs" (dig "maxJobs" nil $of | default 1000)
      "s3" (dict "bucket" (dig "s3" "bucket" "" $of) "endpoint" (dig "s3" "endpoint" "" $of) "region" (dig "s3" "region" "" $of))
      "redirect" (dig "redirect" true $of) | toJson }}
{{- end }}

{{/* The namespace of the Secrets with values of units. */}}
{{- define "operator.valuesNamespace" -}}
{{- dig "valuesNamespace" "" (.Values.ioContextServer | default dict) | default "signadot-values" }}
{{- end }}
