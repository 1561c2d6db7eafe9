{{- /*
Rights to read policies. The kinds are those of reconcilers/policies (a test of the chart compares
the two) and those of the value policies.kinds; kinds of routes alone are read while routes of the
Gateway API are derived.
*/ -}}
{{- define "operator.policyDefinitions" -}}
  # To know which kinds of policies the cluster has.
  - apiGroups: [apiextensions.k8s.io]
    resources: [customresourcedefinitions]
    resourceNames:
      - servers.policy.linkerd.io
      - authorizationpolicies.security.istio.io
      - requestauthentications.security.istio.io
      - peerauthentications.security.istio.io
      - envoyfilters.networking.istio.io
      - sidecars.networking.istio.io
      - wasmplugins.extensions.istio.io
      - telemetries.telemetry.istio.io
      - ciliumnetworkpolicies.cilium.io
      - ciliumclusterwidenetworkpolicies.cilium.io
      - podmonitors.monitoring.coreos.com
      {{- if include "operator.gatewayAPI" . }}
      - securitypolicies.gateway.envoyproxy.io
      - backendtrafficpolicies.gateway.envoyproxy.io
      - envoyextensionpolicies.gateway.envoyproxy.io
      - envoypatchpolicies.gateway.envoyproxy.io
      - authpolicies.kuadrant.io
      - ratelimitpolicies.kuadrant.io
      - tokenratelimitpolicies.kuadrant.io
      - trafficpolicies.gateway.kgateway.dev
      - routeoptions.gateway.solo.io
      - ratelimitpolicies.gateway.nginx.org
      - httproutepolicies.apisix.apache.org
      - webapplicationfirewallpolicies.alb.networking.azure.io
      - gcpbackendpolicies.networking.gke.io
      - agentgatewaypolicies.agentgateway.dev
      - xbackendtrafficpolicies.gateway.networking.x-k8s.io
      - healthcheckpolicies.networking.gke.io
      - backendconfigpolicies.gateway.kgateway.dev
      - upstreamsettingspolicies.gateway.nginx.org
      - backendtrafficpolicies.apisix.apache.org
      - targetgroupconfigurations.gateway.k8s.aws
      {{- if not .Values.istio.enabled }}
      - destinationrules.networking.istio.io
      {{- end }}
      - authorizationpolicies.policy.linkerd.io
      {{- end }}
      {{- range (.Values.policies).kinds }}
      - {{ .resource }}.{{ .group }}
      {{- end }}
    verbs: [get, list, watch]
  - apiGroups: [cilium.io]
    resources: [ciliumclusterwidenetworkpolicies]
    verbs: [get, list, watch]
{{- end }}

{{- define "operator.policyRules" -}}
  # To find policies that apply to a baseline or its routes, and not to forks and derived routes.
  - apiGroups: [policy.linkerd.io]
    resources: [servers]
    verbs: [get, list, watch]
  - apiGroups: [security.istio.io]
    resources: [authorizationpolicies, requestauthentications, peerauthentications]
    verbs: [get, list, watch]
  - apiGroups: [networking.istio.io]
    resources: [envoyfilters, sidecars]
    verbs: [get, list, watch]
  - apiGroups: [extensions.istio.io]
    resources: [wasmplugins]
    verbs: [get, list, watch]
  - apiGroups: [telemetry.istio.io]
    resources: [telemetries]
    verbs: [get, list, watch]
  - apiGroups: [cilium.io]
    resources: [ciliumnetworkpolicies]
    verbs: [get, list, watch]
  - apiGroups: [monitoring.coreos.com]
    resources: [podmonitors]
    verbs: [get, list, watch]
{{- if include "operator.gatewayAPI" . }}
  - apiGroups: [gateway.envoyproxy.io]
    resources: [securitypolicies, backendtrafficpolicies, envoyextensionpolicies, envoypatchpolicies]
    verbs: [get, list, watch]
  - apiGroups: [kuadrant.io]
    resources: [authpolicies, ratelimitpolicies, tokenratelimitpolicies]
    verbs: [get, list, watch]
  - apiGroups: [gateway.kgateway.dev]
    resources: [trafficpolicies, backendconfigpolicies]
    verbs: [get, list, watch]
  - apiGroups: [gateway.solo.io]
    resources: [routeoptions]
    verbs: [get, list, watch]
  - apiGroups: [gateway.nginx.org]
    resources: [ratelimitpolicies, upstreamsettingspolicies]
    verbs: [get, list, watch]
  - apiGroups: [apisix.apache.org]
    resources: [httproutepolicies, backendtrafficpolicies]
    verbs: [get, list, watch]
  - apiGroups: [alb.networking.azure.io]
    resources: [webapplicationfirewallpolicies]
    verbs: [get, list, watch]
  - apiGroups: [networking.gke.io]
    resources: [gcpbackendpolicies, healthcheckpolicies]
    verbs: [get, list, watch]
  - apiGroups: [policy.linkerd.io]
    resources: [authorizationpolicies]
    verbs: [get, list, watch]
  - apiGroups: [agentgateway.dev]
    resources: [agentgatewaypolicies]
    verbs: [get, list, watch]
  - apiGroups: [gateway.networking.x-k8s.io]
    resources: [xbackendtrafficpolicies]
    verbs: [get, list, watch]
  - apiGroups: [gateway.k8s.aws]
    resources: [targetgroupconfigurations]
    verbs: [get, list, watch]
  {{- if not .Values.istio.enabled }}
  # With Istio on, the manager reads them anyway, and copies them.
  - apiGroups: [networking.istio.io]
    resources: [destinationrules]
    verbs: [get, list, watch]
  {{- end }}
{{- end }}
{{- range (.Values.policies).kinds }}
  - apiGroups: [{{ .group }}]
    resources: [{{ .resource }}]
    verbs: [get, list, watch]
{{- end }}
{{- end }}
