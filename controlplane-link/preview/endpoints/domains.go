package endpoints

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/preview/label"
	"switchyard.dev/eventbus/lists"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	"switchyard.dev/xds/routingkey"
)

// Settings are the values of a cluster's operator about previews.
type Settings struct {
	// Disabled: the cluster has no previews (previewServer.enabled).
	Disabled bool `json:"disabled,omitempty"`
	// Domain is that of reported URLs, instead of the organisation's (previewServer.customDomain).
	Domain string `json:"customDomain,omitempty"`
	// Headers carry a routing key as their whole value, beside baggage and tracestate (routing.customHeaders).
	Headers []string `json:"customHeaders,omitempty"`
}

// config is the part of model.Cluster.Config about previews.
type config struct {
	Previews Settings `json:"previews"`
}

// Reported returns the configuration of a cluster as it is stored; nil if an agent has reported no settings.
func Reported(c *linkv1.Configuration) json.RawMessage {
	usable := func(name string) bool { return routingkey.CheckHeader(name) == nil }
	s := Settings{Disabled: c.GetPreviewsDisabled(), Domain: c.GetPreviewDomain(), Headers: lists.Filter(c.GetRoutingHeaders(), usable)}
	text, err := json.Marshal(config{Previews: s})
	if !s.Disabled && s.Domain == "" && len(s.Headers) == 0 || err != nil {
		return nil
	}
	return text
}

// SettingsOf returns the settings that the agent of a cluster has reported.
func SettingsOf(c model.Cluster) Settings {
	var of config
	_ = json.Unmarshal(c.Config, &of) // none is reported
	return of.Previews
}

// Domains are the preview domains, as label.Domain returns them, by organisation.
type Domains map[string]string

// Of returns the domain of the previews of a cluster; empty: it has none. The problem is a sentence for users: why it
// has none, or why its custom domain does not count; empty: there is none.
func (d Domains) Of(c model.Cluster) (domain, problem string) {
	s, domain := SettingsOf(c), d[c.Org]
	switch {
	case domain == "":
		return "", ""
	case s.Disabled:
		return "", "There are no previews: value previewServer.enabled of the cluster's operator is false."
	case s.Domain == "":
		return domain, ""
	}
	custom, err := label.Domain(s.Domain)
	for org, other := range d {
		if err == nil && org != c.Org && Overlap(custom, other) {
			err = errors.New("the preview domain of another organisation is the same, or one is below the other")
		}
	}
	if err != nil {
		return domain, Ignored(err)
	}
	return custom, ""
}

// Ignored is the problem of a cluster with a custom domain that is not used.
func Ignored(why error) string {
	return fmt.Sprintf("Value previewServer.customDomain of its operator is ignored: %v.", why)
}

// Overlap reports whether two domains are the same, or one is below the other.
func Overlap(a, b string) bool {
	return a == b || strings.HasSuffix(a, "."+b) || strings.HasSuffix(b, "."+a)
}

// URL returns the URL of the preview of an endpoint below a domain; empty: it has none.
func (e Endpoint) URL(domain string) string {
	if domain == "" || e.Label == (label.Label{}) {
		return ""
	}
	return "https://" + e.Label.Host(domain)
}
