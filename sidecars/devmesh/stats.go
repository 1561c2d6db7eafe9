package devmesh

import (
	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
	envoymatcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// The statistics that Envoy keeps. It would keep some hundred others, and counting takes 4 to 8
// per cent of the cost of every request; they would be unused, because only the keeper can
// reach the administration interface.
const (
	// ActiveRequests, ActiveUpgrades and ActiveTCP count activity in progress: requests, of
	// them those that were upgraded (WebSocket), and connections that are not HTTP. Gauges.
	ActiveRequests = "http.inbound.downstream_rq_active"
	ActiveUpgrades = "http.inbound.downstream_cx_upgrades_active"
	ActiveTCP      = "tcp.tcp.downstream_cx_active"
	// Requests counts those that came, ever.
	Requests = "http.inbound.downstream_rq_total"
	// LateConnections counts connections that did not show their protocol in time.
	LateConnections = "tcp.late.downstream_cx_total"
)

// stats keeps these and no others.
func stats() *metricsv3.StatsConfig {
	keep := &envoymatcherv3.ListStringMatcher{}
	for _, name := range []string{ActiveRequests, ActiveUpgrades, ActiveTCP, Requests, LateConnections} {
		keep.Patterns = append(keep.Patterns, &envoymatcherv3.StringMatcher{
			MatchPattern: &envoymatcherv3.StringMatcher_Exact{Exact: name},
		})
	}
	return &metricsv3.StatsConfig{StatsMatcher: &metricsv3.StatsMatcher{
		StatsMatcher: &metricsv3.StatsMatcher_InclusionList{InclusionList: keep},
	}}
}
