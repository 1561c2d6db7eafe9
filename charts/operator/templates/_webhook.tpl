{{- /*
Pods with the annotation.
  path: the suffix of the webhook's path
  confined: In or NotIn, for namespaces where pod security is enforced
*/}}
{{- define "operator.webhookForPods" -}}
{{ include "operator.webhookCall" (print "/mutate-v1-pod" .path) }}
namespaceSelector:
  matchExpressions:
    {{- include "operator.webhookNamespaces" .confined | nindent 4 }}
matchConditions:
  - name: pod-asks
    expression: "has(object.metadata.annotations) && 'sidecar.signadot.com/inject' in object.metadata.annotations"
  {{- include "operator.webhookConditions" . | nindent 2 }}
{{- end }}

{{/* Pods of namespaces with the label; same parameters. */}}
{{- define "operator.webhookForNamespaces" -}}
{{ include "operator.webhookCall" (print "/mutate-v1-pod/namespace" .path) }}
namespaceSelector:
  matchExpressions:
    - key: sidecar.signadot.com/inject
      operator: In
      values: ["true", http, grpc]
    {{- include "operator.webhookNamespaces" .confined | nindent 4 }}
matchConditions:
  - name: pod-without-annotation
    expression: "!has(object.metadata.annotations) || !('sidecar.signadot.com/inject' in object.metadata.annotations)"
  {{- include "operator.webhookConditions" . | nindent 2 }}
{{- end }}

{{/* Excludes the cluster's own namespaces, the operator's, and those that opt out. */}}
{{- define "operator.webhookLeavesOut" -}}
- key: signadot.com/admission-webhooks
  operator: NotIn
  values: [disabled]
- key: kubernetes.io/metadata.name
  operator: NotIn
  values: [kube-system, kube-node-lease, signadot]
{{- end }}

{{/* The same for pods. Takes In or NotIn, for namespaces where pod security is enforced. */}}
{{- define "operator.webhookNamespaces" -}}
{{ include "operator.webhookLeavesOut" . }}
- key: pod-security.kubernetes.io/enforce
  operator: {{ . }}
  values: [baseline, restricted]
{{- end }}

{{/* Pods that are never asked about. */}}
{{- define "operator.webhookConditions" -}}
# The kubelet runs these already; nothing can be put into them any more.
- name: not-a-mirror-pod
  expression: "!has(object.metadata.annotations) || !('kubernetes.io/config.mirror' in object.metadata.annotations)"
- name: not-injected-yet
  expression: "!object.spec.containers.exists(c, c.name == 'sd-sidecar') && (!has(object.spec.initContainers) || !object.spec.initContainers.exists(c, c.name == 'sd-sidecar'))"
{{- end }}

{{/* VirtualServices that the operator may write. */}}
{{- define "operator.webhookForVirtualServices" -}}
rules:
  - apiGroups: [networking.istio.io]
    apiVersions: [v1]
    resources: [virtualservices]
    operations: [CREATE, UPDATE]
    scope: Namespaced
{{ include "operator.webhookServed" "/mutate-networking-istio-io-virtualservice" }}
namespaceSelector:
  matchExpressions:
    {{- include "operator.webhookLeavesOut" . | nindent 4 }}
    {{- with include "operator.allowedNamespaces" . | fromJsonArray }}
    - key: kubernetes.io/metadata.name
      operator: In
      values: {{ toJson . }}
    {{- end }}
{{- end }}

{{/* How the webhook is called for pods; takes the path. */}}
{{- define "operator.webhookCall" -}}
rules:
  - apiGroups: [""]
    apiVersions: [v1]
    resources: [pods]
    operations: [CREATE]
    scope: Namespaced
{{ include "operator.webhookServed" . }}
{{- end }}

{{/* Where it is served, and what happens when it is not; takes the path. */}}
{{- define "operator.webhookServed" -}}
clientConfig:
  service:
    namespace: signadot
    name: signadot-webhook-service
    path: {{ . }}
    port: 443
admissionReviewVersions: [v1]
sideEffects: None
failurePolicy: Ignore
matchPolicy: Equivalent
reinvocationPolicy: IfNeeded
timeoutSeconds: 2
{{- end }}
