{{/*
The agent: the link to a control plane.
*/}}

{{/* "true" when it is installed, which is the default for values of an older release. */}}
{{- define "operator.agent" -}}
{{- if and (ne (toString (dig "enabled" true (.Values.agent | default dict))) "false") (not .Values.disableAgent) }}true{{ end }}
{{- end }}

{{/* The address of the control plane. The default is the published one. */}}
{{- define "operator.controlPlaneAddress" -}}
{{- .Values.controlPlane.tunnelAddr | default "tunnel.signadot.com:443" }}
{{- end }}

{{/* The agent and its connection after an installation, for the notes. */}}
{{- define "operator.agentNotes" -}}
{{- $secret := include "operator.tokenSecret" . }}
{{- $address := include "operator.controlPlaneAddress" . }}
{{- if not (include "operator.agent" .) }}
{{- if include "operator.clusterToken" . }}
The cluster token is in Secret {{ $secret }}. The cluster does not connect to a control plane: the agent is disabled
(disableAgent).
{{- end }}
{{- else if not (or (include "operator.clusterToken" .) (lookup "v1" "Secret" "signadot" $secret)) }}
The agent is idle, and ready: the cluster does not connect to a control plane before Secret {{ $secret }} has a token
(controlPlane.clusterToken).
{{- else if and (eq $address "tunnel.signadot.com:443") (not .Values.controlPlane.ca) }}
The cluster token is in Secret {{ $secret }}. The cluster does not connect to a control plane: the server at {{ $address }},
the published address, is of another product. The agent sends it nothing, tries again every ten minutes, and is ready. To
connect the cluster, set controlPlane.tunnelAddr and controlPlane.ca; to remove the agent, disableAgent=true.
{{- else }}
The agent connects to the control plane at {{ $address }} with the token in Secret {{ $secret }}. To check it:
  kubectl -n signadot logs -l app=signadot-agent --prefix --tail=-1
{{- if not .Values.controlPlane.ca }}
controlPlane.ca is empty, so the agent trusts no control plane, sends the token to none, and does not become ready. Set it
to the authority of the control plane.
{{- end }}
{{- end }}
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
