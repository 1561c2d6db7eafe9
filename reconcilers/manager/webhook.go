package manager

import (
	"fmt"

	"switchyard.dev/eventbus/trust/authority"
	"switchyard.dev/reconcilers/admission"
	"switchyard.dev/reconcilers/admission/record"
	"switchyard.dev/reconcilers/meshes/istioadapter"
	"switchyard.dev/reconcilers/runners"
	"switchyard.dev/reconcilers/trafficcapture"
	"switchyard.dev/reconcilers/tunnelholders"
	"switchyard.dev/sidecars/webhook"
)

// addWebhook adds the injecting webhook.
func (m *Main) addWebhook() error {
	if m.config.WithoutWebhook {
		return nil
	}
	reviews, err := m.reviews()
	if err != nil {
		return fmt.Errorf("make what asks about authors: %w", err)
	}
	m.injector, err = webhook.New(webhook.Config{
		REST: m.config.REST, Inject: m.config.Inject, Address: m.config.WebhookAddress,
		Reviews: reviews, Certs: m.certificates(), Metrics: m.config.Metrics, Log: m.config.Logger,
	})
	if err != nil {
		return fmt.Errorf("make the webhook: %w", err)
	}
	m.add("the webhook", m.injector)
	return nil
}

// certificates are those that the manager keeps.
func (m *Main) certificates() authority.Config {
	return authority.Config{
		Namespace: m.config.Namespace, Validating: m.validating(), Roots: m.config.Trust, Authority: "signadot-authority",
		Policy: authority.Policy{Hosts: append(webhook.ServiceHosts("signadot-webhook-service", operatorNamespace), webhook.ServiceHosts(runners.Service, m.config.Namespace)...)},
		Programs: []authority.Program{
			{Secret: "routeserver-tls", Hosts: append(webhook.ServiceHosts("routeserver", m.config.Namespace),
				webhook.ServiceHosts("routeserver-peers", m.config.Namespace)...)},
			{Secret: "eventbus-tls", Hosts: webhook.ServiceHosts("eventbus", m.config.Namespace)},
			{Secret: "traffic-tls", Hosts: webhook.ServiceHosts(trafficcapture.ManagerName, m.config.Namespace)},
			{Secret: "io-context-tls", Hosts: webhook.ServiceHosts("io-context-server", m.config.Namespace)},
			{Secret: "tunnel-tls", Hosts: append(webhook.ServiceHosts(tunnelholders.Name, m.config.Namespace),
				webhook.ServiceHosts("tunnel-api", m.config.Namespace)...)},
		},
	}
}

// The operator's own service account, its validating webhook, and the account of the agent, as the chart has them.
const (
	ownAccount        = "signadot-controller-manager"
	validatingWebhook = "signadot-validating-webhook-configuration"
	agentAccount      = "signadot-agent"
)

// validating returns the name of the validating webhook, "" if it is disabled.
func (m *Main) validating() string {
	if !m.config.AskAuthors {
		return ""
	}
	return validatingWebhook
}

// ownUser returns the user name of the manager's service account.
func (m *Main) ownUser() string {
	return m.accountUser(ownAccount)
}

// accountUser returns the user name of a service account of the operator's namespace.
func (m *Main) accountUser(name string) string {
	return "system:serviceaccount:" + m.config.Namespace + ":" + name
}

// reviews returns the webhook's reviews other than that of pods.
func (m *Main) reviews() (map[string]webhook.Review, error) {
	all := map[string]webhook.Review{}
	if m.istio != nil {
		all[istioadapter.Path] = m.istio.Review
	}
	if !m.config.AskAuthors {
		return all, nil
	}
	asking, err := record.Reviews(admission.Config{
		Client: m.manager.GetClient(), REST: m.config.REST, Logger: m.config.Logger, Exempt: []string{m.ownUser()},
		OperatorNamespace: m.config.Namespace, Values: m.values(), Namespaces: m.config.Namespaces,
		Powers: m.config.PatchPowers, Limits: m.config.Limits, Delegates: m.config.Delegates,
	})
	for path, review := range asking {
		all[path] = review
	}
	return all, err
}
