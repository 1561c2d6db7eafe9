{{/*
How the operator's programs authenticate to route servers: with a token of their service account.
Its only audience is the routing API, so that it cannot be replayed elsewhere; the kubelet renews
it.
*/}}

{{/* Where it is mounted, as a list item. */}}
{{- define "operator.routeServerTokenMount" -}}
- name: routeserver-token
  mountPath: /var/run/secrets/routeserver
  readOnly: true
{{- end }}

{{/* What strangers are answered; before there was that value they were answered everything. */}}
{{- define "operator.anonymous" -}}
{{ .Values.routeServer.anonymous | default "cluster" }}
{{- end }}

{{/* The volume, as a list item. */}}
{{- define "operator.routeServerTokenVolume" -}}
- name: routeserver-token
  projected:
    sources:
      - serviceAccountToken:
          path: token
          audience: api.routeserver.signadot.svc
          expirationSeconds: 3600
{{- end }}
