{{/*
The server certificates of route servers, the event bus, the IO context server, tunnel-api and the
tunnel proxies. The manager writes them into Secrets of the chart (controller-manager/state.yaml).
Each file is listed, so that the kubelet starts no pod before they exist: a program without them
cannot serve.
*/}}

{{/* Where they are mounted, as a list item. */}}
{{- define "operator.tlsMount" -}}
- name: tls
  mountPath: /var/run/secrets/tls
  readOnly: true
{{- end }}

{{/* The volume, as a list item; takes the name of the Secret. */}}
{{- define "operator.tlsVolume" -}}
- name: tls
  secret:
    secretName: {{ . }}
    items:
      - key: tls.crt
        path: tls.crt
      - key: tls.key
        path: tls.key
      - key: ca.crt
        path: ca.crt
{{- end }}

{{/* The arguments, as list items. Without a value the program's default applies (operator.defaultsEnv). */}}
{{- define "operator.tlsArgs" -}}
- --tls-dir=/var/run/secrets/tls
{{- with dig "acceptPlain" "auto" (.Values.tls | default dict) | toString }}
{{- if ne . "auto" }}
- --accept-plain={{ . }}
{{- end }}
{{- end }}
{{- end }}

{{/* The version that the installation has, whatever securityDefaults is, as an item of an environment. */}}
{{- define "operator.installationEnv" -}}
- name: SWITCHYARD_DEFAULTS
  valueFrom:
    configMapKeyRef:
      name: switchyard-routing-log
      key: defaults
{{- end }}

{{/*
"true" when earlier defaults apply, as far as the chart knows: helm template sees no cluster.
*/}}
{{- define "operator.earlierDefaults" -}}
{{- $chosen := include "operator.securityDefaults" . }}
{{- if eq $chosen "earlier" }}true
{{- else if eq $chosen "auto" }}
{{- $data := dig "data" dict (lookup "v1" "ConfigMap" "signadot" "switchyard-routing-log" | default dict) }}
{{- if or (eq (get $data "defaults") "1") (and (get $data "epoch") (not (get $data "defaults"))) }}true{{ end }}
{{- end }}
{{- end }}

{{/* What earlier defaults mean for values that are not set, one on each line. */}}
{{- define "operator.keptDefaults" -}}
{{- if include "operator.earlierDefaults" . }}
{{- if eq (dig "acceptPlain" "auto" (.Values.tls | default dict) | toString) "auto" }}
{{- print "tls.acceptPlain: connections without TLS are accepted (strict: false)\n" }}
{{- end }}
{{- if eq (dig "routes" "auto" (.Values.policies | default dict) | toString) "auto" }}
{{- print "policies.routes: routes are derived past policies that are reported (strict: refuse)\n" }}
{{- end }}
{{- if include "operator.tunnels" . }}
{{- $config := include "operator.tunnelConfig" . | fromJson }}
{{- if not $config.cidrs }}
{{- print "tunnel.config.cidrs: any, so workstations reach nodes and addresses outside of the cluster (strict: cluster)\n" }}
{{- end }}
{{- if eq (toString $config.socks5Loopback) "auto" }}
{{- print "tunnel.config.socks5Loopback: SOCKS5 asks clients on loopback for no credentials (strict: credentials)\n" }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* What securityDefaults is; auto where values of an older release do not have it. */}}
{{- define "operator.securityDefaults" -}}
{{- .Values.securityDefaults | default "auto" }}
{{- end }}

{{/*
The version of the defaults, as an item of a container's environment: that of the installation, which
the manager records when it starts first; the kubelet starts the container then.
*/}}
{{- define "operator.defaultsEnv" -}}
{{- if eq (include "operator.securityDefaults" .) "auto" }}
{{- include "operator.installationEnv" . }}
{{- else -}}
- name: SWITCHYARD_DEFAULTS
  value: {{ eq (include "operator.securityDefaults" .) "earlier" | ternary "1" "2" | quote }}
{{- end }}
{{- end }}
