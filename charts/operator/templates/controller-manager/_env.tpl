{{/*
The manager's environment: its identity, the address of the bus, and for each container that it
injects the image, pull policy and resources. The names are the published ones.
*/}}
{{- define "operator.managerEnv" -}}
- name: POD_NAME
  valueFrom:
    fieldRef:
      apiVersion: v1
      fieldPath: metadata.name
- name: EVENTBUS_URL
  value: {{ include "operator.eventBusURL" . | quote }}
- name: ROUTESERVER_TLS
  value: "true"
{{- if ne (include "operator.securityDefaults" .) "auto" }}
{{ include "operator.defaultsEnv" . }}
{{- end }}
{{- include "operator.injectedEnv" (dict "root" . "of" .Values.routeInit "name" "route-sidecar-init" "prefix" "SIDECAR_INIT" "resources" "DEV_MESH_INIT_CONTAINER_RESOURCES") }}
{{- include "operator.injectedEnv" (dict "root" . "of" .Values.routeSidecar "name" "route-sidecar" "prefix" "ROUTE_SIDECAR" "resources" "DEV_MESH_SIDECAR_CONTAINER_RESOURCES") }}
{{- with .Values.routeSidecar.resourceBounds }}
- name: DEV_MESH_SIDECAR_RESOURCE_BOUNDS
  value: {{ include "operator.json" . | quote }}
{{- end }}
{{- include "operator.injectedEnv" (dict "root" . "of" (include "operator.ioContainer" .Values.ioInit | fromJson) "name" "io-init" "prefix" "IO_INIT" "resources" "IO_INIT_CONTAINER_RESOURCES") }}
{{- include "operator.injectedEnv" (dict "root" . "of" (include "operator.ioContainer" .Values.ioSidecar | fromJson) "name" "io-sidecar" "prefix" "IO_SIDECAR" "resources" "IO_SIDECAR_CONTAINER_RESOURCES") }}
{{- include "operator.injectedEnv" (dict "root" . "of" (include "operator.ioContainer" .Values.jobExecutorInit | fromJson) "name" "job-executor-init" "prefix" "JOB_EXECUTOR_INIT" "resources" "JOB_EXECUTOR_INIT_CONTAINER_RESOURCES") }}
{{- include "operator.injectedEnv" (dict "root" . "of" (include "operator.ioContainer" .Values.jobExecutorProxy | fromJson) "name" "job-executor-proxy" "prefix" "JOB_EXECUTOR_PROXY" "resources" "JOB_EXECUTOR_PROXY_CONTAINER_RESOURCES") }}
{{- include "operator.injectedEnv" (dict "root" . "of" (include "operator.ioContainer" .Values.trafficSidecar | fromJson) "name" "traffic-sidecar" "prefix" "TRAFFIC_SIDECAR" "resources" "TRAFFIC_SIDECAR_CONTAINER_RESOURCES") }}
{{- if include "operator.agent" . }}
{{- include "operator.injectedEnv" (dict "root" . "of" (include "operator.ioContainer" .Values.smartTest | fromJson) "name" "smart-test" "prefix" "SMART_TEST" "resources" "SMART_TEST_CONTAINER_RESOURCES") }}
- name: SMART_TEST_ELIDE
  value: {{ concat (dig "requestHeadersElide" nil (.Values.trafficCapture | default dict) | default list) (dig "responseHeadersElide" nil (.Values.trafficCapture | default dict) | default list) | uniq | join "," | quote }}
{{- end }}
- name: JOB_EXECUTOR_PROXY_LOG_LEVEL
  value: {{ (.Values.jobExecutorProxy | default dict).logLevel | default "info" | quote }}
{{- $s3 := dig "s3" dict (.Values.jobs | default dict) }}
{{- if and $s3.bucket $s3.secret }}
{{- range list "AWS_ACCESS_KEY_ID" "AWS_SECRET_ACCESS_KEY" }}
- name: {{ . }}
  valueFrom:
    secretKeyRef:
      name: {{ $s3.secret }}
      key: {{ . }}
{{- end }}
- name: S3_CA
  valueFrom:
    secretKeyRef:
      name: {{ $s3.secret }}
      key: ca.crt
      optional: true
{{- end }}
{{- end }}

{{/*
The four variables of one injected container.
  root, of, name   as for operator.image
  prefix           what the variables' names begin with
  resources        the name of the variable with the resources
*/}}
{{- define "operator.injectedEnv" }}
- name: {{ .prefix }}_IMAGE
  value: {{ include "operator.image" . | quote }}
- name: {{ .prefix }}_IMAGE_PULL_POLICY
  value: {{ .of.imagePullPolicy | quote }}
- name: {{ .prefix }}_IMAGE_PULL_SECRET
  value: {{ .of.imagePullSecret | quote }}
- name: {{ .resources }}
  value: {{ include "operator.json" .of.resources | quote }}
{{- end }}
