{{/* The user name of the manager's service account. */}}
{{- define "operator.account" -}}
system:serviceaccount:signadot:signadot-controller-manager
{{- end }}

{{/* Resources that the authors' webhook reviews, each followed by the text given, such as /status. */}}
{{- define "operator.authorsResources" -}}
{{- $all := list }}
{{- range list "forkedworkloads" "jobrunnergroups" "jobs" "resources" "routingconfigs" "signadotexternalworkloads" "signadotobjectlifecyclemethods" "signadotroutegroups" "signadotsandboxes" "trafficcaptures" "virtualworkloads" }}
{{- $all = append $all (print "- " . $) }}
{{- end }}
{{- join "\n" $all }}
{{- end }}

{{/* The annotations that count as specification: the list of authors.Annotations(), for CEL. */}}
{{- define "operator.authorsAnnotations" -}}
['signadot.com/sandbox-name', 'signadot.com/routing-key', 'signadot.com/local', 'signadot.com/specification',
'signadot.com/ttl', 'signadot.com/ttl-offset-from', 'signadot.com/updated-at',
'signadot.com/retry', 'signadot.com/give-up', 'switchyard.dev/machine']
{{- end }}

{{/* The annotations of which a change makes the user the author: the list of authors.AuthorAnnotations(), for CEL. */}}
{{- define "operator.authorAnnotations" -}}
['signadot.com/sandbox-name', 'signadot.com/routing-key', 'signadot.com/local', 'signadot.com/specification']
{{- end }}

{{/*
In CEL, whether a request creates an object, or changes its specification or one of some annotations;
takes their list.
*/}}
{{- define "operator.authorsChange" -}}
request.operation != 'UPDATE'
|| has(object.spec) != has(oldObject.spec)
|| (has(object.spec) && object.spec != oldObject.spec)
|| {{ . }}.exists(a,
(has(object.metadata.annotations) && a in object.metadata.annotations ? object.metadata.annotations[a] : '')
!= (has(oldObject.metadata.annotations) && a in oldObject.metadata.annotations ? oldObject.metadata.annotations[a] : ''))
{{- end }}

{{/* In CEL, an annotation before and after a change, empty if there is none; takes its name. */}}
{{- define "operator.annotationBefore" -}}
request.operation == 'UPDATE' && has(oldObject.metadata.annotations) && '{{ . }}' in oldObject.metadata.annotations
? oldObject.metadata.annotations['{{ . }}'] : ''
{{- end }}
{{- define "operator.annotationAfter" -}}
has(object.metadata.annotations) && '{{ . }}' in object.metadata.annotations
? object.metadata.annotations['{{ . }}'] : ''
{{- end }}

{{/*
The mutating webhook that records authors. Without its answer no specification changes
(Fail): an object would keep the author of an earlier change.
*/}}
{{- define "operator.webhookForAuthors" -}}
rules:
  - apiGroups: [signadot.com]
    apiVersions: [v1]
    resources:
      {{- include "operator.authorsResources" "" | nindent 6 }}
    operations: [CREATE, UPDATE]
    scope: "*"
clientConfig:
  service:
    namespace: signadot
    name: signadot-webhook-service
    path: /mutate-signadot-com-v1
    port: 443
matchConditions:
  # The manager's writes keep the annotation as it is.
  - name: not-written-by-the-manager
    expression: "request.userInfo.username != '{{ include "operator.account" . }}'"
  - name: changes-the-author
    expression: >-
      {{- include "operator.authorsChange" (include "operator.authorAnnotations" .) | nindent 6 }}
admissionReviewVersions: [v1]
sideEffects: None
failurePolicy: Fail
matchPolicy: Equivalent
reinvocationPolicy: IfNeeded
timeoutSeconds: 5
{{- end }}
