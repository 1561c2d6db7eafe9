{{/*
What all our pods have in common, so that no pod can forget it.
*/}}

{{/* Pod security, at the level that Kubernetes calls restricted. */}}
{{- define "operator.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* Container security, at the same level, with a read-only root file system. */}}
{{- define "operator.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* Labels of pods in the mesh of Istio, as YAML. A value replaces the default as a whole, as in the published chart. */}}
{{- define "operator.istioPodLabels" -}}
{{- include "operator.stringMap" (.Values.istio.operator.podLabels | default (dict "sidecar.istio.io/inject" "true")) }}
{{- end }}

{{/* The same for annotations and Linkerd. */}}
{{- define "operator.linkerdPodAnnotations" -}}
{{- include "operator.stringMap" (.Values.linkerd.operator.podAnnotations | default (dict "linkerd.io/inject" "enabled")) }}
{{- end }}

{{/*
Labels and annotations of pods that connect to workloads, as JSON: those by which the enabled mesh takes
them in, and their own, which the others do not replace.
  root, labels, annotations
*/}}
{{- define "operator.inMesh" -}}
{{- $labels := dict }}
{{- $annotations := dict }}
{{- if .root.Values.istio.enabled }}
{{- /* Connections from the pod alone pass the proxy of a sidecar. Of those to the pod, SOCKS5 has fewer bytes at first
than Envoy's TLS inspector waits for, and workstations and the manager have no proxy. */}}
{{- $labels = merge (omit (include "operator.istioPodLabels" .root | fromYaml) "app" "control-plane") (dict "security.istio.io/tlsMode" "disabled") }}
{{- $annotations = dict "traffic.sidecar.istio.io/includeInboundPorts" "" }}
{{- end }}
{{- if .root.Values.linkerd.enabled }}
{{- $annotations = include "operator.linkerdPodAnnotations" .root | fromYaml }}
{{- end }}
{{- dict "labels" (merge (deepCopy .labels) $labels) "annotations" (merge (deepCopy (.annotations | default dict)) $annotations) | toJson }}
{{- end }}

{{/*
Where a component's pods may run.
  of       the component's values
  labels   the pods' selector labels if there are several replicas: by default
           they are spread over the nodes if possible
*/}}
{{- define "operator.scheduling" -}}
{{- with .of.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .of.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- $affinity := deepCopy (.of.affinity | default dict) }}
{{- with .of.nodeAffinity }}
{{- $affinity = merge $affinity (dict "nodeAffinity" .) }}
{{- end }}
{{- with $affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .of.priorityClassName }}
priorityClassName: {{ quote . }}
{{- end }}
{{- with .of.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- else }}
{{- with .labels }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- toYaml . | nindent 8 }}
{{- end }}
{{- end }}
{{- end }}

{{/* Secrets for pulling our own images. */}}
{{- define "operator.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/*
A PodDisruptionBudget for one component, when it wants one.
  root, of, name, labels
*/}}
{{- define "operator.podDisruptionBudget" -}}
{{- if .of.podDisruptionBudget.enabled }}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: signadot
  {{- with include "operator.meta" (dict "root" .root) }}
  {{- . | nindent 2 }}
  {{- end }}
spec:
  maxUnavailable: {{ .of.podDisruptionBudget.maxUnavailable }}
  selector:
    matchLabels:
      {{- toYaml .labels | nindent 6 }}
{{- end }}
{{- end }}
