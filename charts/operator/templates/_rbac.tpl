{{/*
The two last fields of a binding.
  kind, role   the bound role
  account      the service account in namespace signadot that gets it
*/}}
{{- define "operator.binding" }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .role }}
subjects:
  - kind: ServiceAccount
    name: {{ .account }}
    namespace: signadot
{{- end }}

{{/*
The manager's rules of one scope, out of files/manager-rules.yaml.
  root    the root context
  scope   "cluster": the operator's kinds, and kinds that have no namespace; these
          rights are always bound cluster-wide
          "namespaced": the rest, which allowedNamespaces can confine
*/}}
{{- define "operator.managerRules" -}}
{{- $clusterGroups := list "signadot.com" "admissionregistration.k8s.io" "apiextensions.k8s.io" "authentication.k8s.io" "authorization.k8s.io" }}
{{- $scopeless := list "namespaces" "nodes" }}
{{- $out := list }}
{{- range $rule := .root.Files.Get "files/manager-rules.yaml" | fromYamlArray }}
{{- $resources := list }}
{{- range $resource := $rule.resources }}
{{- $cluster := has (splitList "/" $resource | first) $scopeless }}
{{- range $rule.apiGroups }}{{ if has . $clusterGroups }}{{ $cluster = true }}{{ end }}{{ end }}
{{- if eq (ternary "cluster" "namespaced" $cluster) $.scope }}
{{- $resources = append $resources $resource }}
{{- end }}
{{- end }}
{{- if $resources }}
{{- $out = append $out (mergeOverwrite (deepCopy $rule) (dict "resources" $resources)) }}
{{- end }}
{{- end }}
{{- toYaml $out }}
{{- end }}

{{/* The user names of the operator's service accounts, as a list in CEL. */}}
{{- define "operator.accountsInCEL" -}}
{{- $accounts := list "signadot-controller-manager" "signadot-drain" "eventbus" "io-context-server" "routeserver" "tunnel-api" "tunnel-proxy" }}
{{- if include "operator.trafficManager" . }}{{ $accounts = append $accounts "traffic-manager" }}{{ end }}
{{- if include "operator.agent" . }}{{ $accounts = append $accounts "signadot-agent" }}{{ end -}}
[{{ range $i, $account := $accounts }}{{ if $i }}, {{ end }}'system:serviceaccount:signadot:{{ $account }}'{{ end }}]
{{- end }}

{{/* The namespaces of the operator, as a list in CEL: its own, and that of the values of units. */}}
{{- define "operator.namespacesInCEL" -}}
['signadot', '{{ include "operator.valuesNamespace" . }}']
{{- end }}

{{/*
A binding that denies what a ValidatingAdmissionPolicy of the same name refuses.
  root   the root context
  name   the name of both
*/}}
{{- define "operator.policyBinding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  {{- with include "operator.meta" (dict "root" .root) }}
  {{- . | nindent 2 }}
  {{- end }}
spec:
  policyName: {{ .name }}
  validationActions: [Deny]
{{- end }}
