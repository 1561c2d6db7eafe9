{{/*
The certificates by which route servers, the event bus, the IO context server, tunnel-api and the
tunnel proxies are known, which the manager writes into Secrets of the chart (controller-manager/state.yaml). Each file is named, so
that the kubelet holds a pod until they are there: a program without them serves nobody.
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

{{/* The arguments, as list items. helm upgrade --reuse-values has no value here. */}}
{{- define "operator.tlsArgs" -}}
- --tls-dir=/var/run/secrets/tls
- --accept-plain={{ dig "acceptPlain" true (.Values.tls | default dict) }}
{{- end }}
