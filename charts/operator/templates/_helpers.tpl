{{/*
Small named templates that every object of the chart uses. Those that take more
than the root context take a dict; its keys are listed above each of them.
*/}}

{{/*
Labels and annotations of one object, as YAML without the key "metadata".
  root         the root context
  labels       the object's own labels, which nothing can override
  annotations  the object's own annotations, which nothing can override
  extra        prefix of the values that are for this sort of object: "service",
               "configMap" or "pod" (serviceLabels, serviceAnnotations, …)
Empty when there is neither.
*/}}
{{- define "operator.meta" -}}
{{- $out := dict }}
{{- range $sort := list "labels" "annotations" }}
{{- $all := dict }}
{{- range $key, $value := get $.root.Values (printf "common%s" (title $sort)) }}
{{- $_ := set $all $key (toString $value) }}
{{- end }}
{{- with $.extra }}
{{- range $key, $value := get $.root.Values (printf "%s%s" . (title $sort)) }}
{{- $_ := set $all $key (toString $value) }}
{{- end }}
{{- end }}
{{- if eq (get $ "extra") "pod" }}
{{- /* Selector labels are reserved: another Service must not select the pod. */}}
{{- $all = omit $all "app" "control-plane" }}
{{- end }}
{{- range $key, $value := get $ $sort | default dict }}
{{- $_ := set $all $key (toString $value) }}
{{- end }}
{{- if $all }}
{{- $_ := set $out $sort $all }}
{{- end }}
{{- end }}
{{- if $out }}
{{- toYaml $out }}
{{- end }}
{{- end }}

{{/*
The image of one component.
  root   the root context
  of     the component's values; its key image, when set, is the whole answer, and
         its key imageTag comes before the tag of all
  name   the image's name in our registry
*/}}
{{- define "operator.image" -}}
{{- $tag := .of.imageTag | default .root.Values.imageTag | default .root.Chart.AppVersion }}
{{- $path := compact (list (trimSuffix "/" .root.Values.registry) .root.Values.repository .name) | join "/" }}
{{- .of.image | default (printf "%s:%s" $path $tag) }}
{{- end }}

{{/* An object as JSON text for an environment variable: empty when unset. */}}
{{- define "operator.json" -}}
{{- with . }}{{ toJson . }}{{ end }}
{{- end }}

{{/*
The namespaces that the manager may use, as a JSON list. It always includes signadot, and with a control plane
the namespace of Smart Tests; an empty list means all namespaces.
*/}}
{{- define "operator.allowedNamespaces" -}}
{{- $list := .Values.allowedNamespaces }}
{{- if $list }}
{{- if not (has "signadot" $list) }}{{ $list = append $list "signadot" }}{{ end }}
{{- if and (include "operator.agent" .) (not (has "signadot-tests" $list)) }}{{ $list = append $list "signadot-tests" }}{{ end }}
{{- end }}
{{- toJson $list }}
{{- end }}

{{/*
The Gateway API settings as JSON (enabled, implementation, preserved objects); empty when it does
not route requests.
*/}}
{{- define "operator.gatewayAPI" -}}
{{- range $mesh := list "istio" "linkerd" }}
{{- with (get $.Values $mesh).gatewayAPI }}
{{- if .enabled }}
{{- merge (dict "implementation" $mesh) . | toJson }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The cluster token, under its present or its former name; empty when none is given. */}}
{{- define "operator.clusterToken" -}}
{{- .Values.controlPlane.clusterToken | default (get (.Values.agent | default dict) "clusterToken") }}
{{- end }}

{{/*
"true" when objects of users outlive the release. That is the default when the values are those of
an older release (helm upgrade --reuse-values) without the setting.
*/}}
{{- define "operator.keeps" -}}
{{- if ne (toString .Values.uninstall.keep) "false" }}true{{ end }}
{{- end }}

{{/* "true" when pods get DevMesh sidecars. */}}
{{- define "operator.injects" -}}
{{- if and .Values.devMesh.enabled (not .Values.disableSidecarInjector) }}true{{ end }}
{{- end }}

{{/*
The Secret with the cluster token, as the pods mount it. A token given as a value
is always the one that is mounted; without one, a Secret of old installations
(cluster-agent) is still honoured.
*/}}
{{- define "operator.tokenSecret" -}}
{{- $old := and (not (include "operator.clusterToken" .)) (lookup "v1" "Secret" "signadot" "cluster-agent") }}
{{- .Values.controlPlane.tokenSecret | default (ternary "cluster-agent" "cluster-token" (not (empty $old))) }}
{{- end }}

{{/* A map with every value as a string, as YAML: what label maps must be. */}}
{{- define "operator.stringMap" -}}
{{- $all := dict }}
{{- range $key, $value := . }}
{{- $_ := set $all $key (toString $value) }}
{{- end }}
{{- toYaml $all }}
{{- end }}

{{/*
The values of authors, with the defaults of values.yaml: helm upgrade --reuse-values passes only the
values that the older release had.
*/}}
{{- define "operator.asksAuthors" -}}
{{- if dig "authors" "ask" true .Values.sandboxes }}true{{ end }}
{{- end }}

{{/* Accounts that write objects on behalf of other users, as JSON. */}}
{{- define "operator.delegates" -}}
{{- $delegates := dig "authors" "delegates" list .Values.sandboxes | default list }}
{{- if include "operator.agent" . }}
{{- /* Once: the manager refuses a list with the same account twice. */}}
{{- $others := list }}
{{- $agent := dict "account" "system:serviceaccount:signadot:signadot-agent" "prefix" "switchyard:controlplane:" }}
{{- range $delegates }}
{{- if ne .account $agent.account }}{{ $others = append $others . }}{{ end }}
{{- end }}
{{- $delegates = append $others $agent }}
{{- end }}
{{- toJson $delegates }}
{{- end }}

{{/* How much one sandbox may ask for, as JSON. */}}
{{- define "operator.limits" -}}
{{- $limits := .Values.sandboxes.limits | default dict }}
{{- dict
      "members" (dig "members" 100 $limits | int)
      "patches" (dig "patches" 500 $limits | int)
      "replicas" (dig "replicas" 200 $limits | int) | toJson }}
{{- end }}
