{{/*
How a component connects to the event bus: to the embedded one with a token of its service
account, to an external one with the credentials in its Secret.
*/}}

{{/* "true" when the chart installs the event bus itself. */}}
{{- define "operator.eventBusEmbedded" -}}
{{- if not .Values.eventBus.external.url }}true{{ end }}
{{- end }}

{{/* Its address. */}}
{{- define "operator.eventBusURL" -}}
{{- .Values.eventBus.external.url | default "tls://eventbus.signadot.svc:4222" }}
{{- end }}

{{/*
The name of a component's Secret for an external bus, or nothing.
  root
  role: writer or follower
  of: Credentials or Cert
*/}}
{{- define "operator.eventBusSecret" -}}
{{- $for := .root.Values.eventBus.external }}
{{- $own := "" }}
{{- if eq .role "follower" }}
{{- $own = get $for (printf "follower%sSecret" .of) }}
{{- end }}
{{- $own | default (get $for (printf "%sSecret" (lower .of))) }}
{{- end }}

{{/* The arguments with which the component authenticates, as list items: root, role. */}}
{{- define "operator.eventBusArgs" -}}
{{- with .root.Values.eventBus.external }}
{{- if .url }}
- --eventbus-token-file=
{{- if include "operator.eventBusSecret" (dict "root" $.root "role" $.role "of" "Credentials") }}
- --eventbus-credentials-file=/var/run/secrets/eventbus/nats.creds
{{- end }}
{{- if .caSecret }}
- --eventbus-ca-file=/var/run/secrets/eventbus/ca.crt
{{- end }}
{{- if include "operator.eventBusSecret" (dict "root" $.root "role" $.role "of" "Cert") }}
- --eventbus-cert-file=/var/run/secrets/eventbus/tls.crt
- --eventbus-key-file=/var/run/secrets/eventbus/tls.key
{{- end }}
{{- if and .followerAPIPrefix (eq $.role "follower") }}
- --eventbus-api-prefix={{ .followerAPIPrefix }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Where the files are mounted, as a list item: root, role. */}}
{{- define "operator.eventBusMount" -}}
{{- if include "operator.eventBusEmbedded" .root }}
- name: eventbus-token
  mountPath: /var/run/secrets/tokens
  readOnly: true
{{- else if include "operator.eventBusSources" . }}
- name: eventbus-credentials
  mountPath: /var/run/secrets/eventbus
  readOnly: true
{{- end }}
{{- end }}

{{/*
The volume with the files, as a list item. The token's only audience is the bus, so that it cannot
be replayed elsewhere; the kubelet renews it.
  root, role
*/}}
{{- define "operator.eventBusVolume" -}}
{{- if include "operator.eventBusEmbedded" .root }}
- name: eventbus-token
  projected:
    sources:
      - serviceAccountToken:
          path: eventbus
          audience: eventbus.signadot.svc
          expirationSeconds: 3600
{{- else }}
{{- with include "operator.eventBusSources" . }}
- name: eventbus-credentials
  projected:
    sources:
      {{- . | nindent 6 }}
{{- end }}
{{- end }}
{{- end }}

{{/* The sources of the volume for an external bus, as list items: root, role. */}}
{{- define "operator.eventBusSources" -}}
{{- with include "operator.eventBusSecret" (dict "root" .root "role" .role "of" "Credentials") -}}
- secret:
    name: {{ quote . }}
    items:
      - key: nats.creds
        path: nats.creds
{{ end }}
{{- with .root.Values.eventBus.external.caSecret -}}
- secret:
    name: {{ quote . }}
    items:
      - key: ca.crt
        path: ca.crt
{{ end }}
{{- with include "operator.eventBusSecret" (dict "root" .root "role" .role "of" "Cert") -}}
- secret:
    name: {{ quote . }}
    items:
      - key: tls.crt
        path: tls.crt
      - key: tls.key
        path: tls.key
{{- end }}
{{- end }}

{{/*
Seventy per cent of a size like 1Gi, in bytes: what the log may take of its
volume. The rest is for the server's own files, and for a new log beside the old.
*/}}
{{- define "operator.logSize" -}}
{{- mulf (include "operator.bytes" . | float64) 0.7 | int64 }}
{{- end }}

{{/* How large the log may grow; values of an earlier release have no size. */}}
{{- define "operator.historySize" -}}
{{- .Values.eventBus.history.size | default "256Mi" }}
{{- end }}

{{/* A size like 1Gi, in bytes. */}}
{{- define "operator.bytes" -}}
{{- $unit := regexFind "[a-zA-Z]+$" . }}
{{- $bytes := get (dict "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776) $unit }}
{{- mulf (trimSuffix $unit . | float64) $bytes | int64 }}
{{- end }}
