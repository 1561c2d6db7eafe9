package devmesh

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	envoymatcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// upgradeTypes are the protocols that a connection can be turned into: WebSocket,
// and what container runtimes and Kubernetes use for attach and exec. Envoy cannot let
// others through without their names.
func upgradeTypes() []string { return []string{"websocket", "tcp", "SPDY/3.1"} }

// upgrades lets those through. CONNECT is not among them: an application that answers
// every method with 200 would turn the connection into a tunnel past the routes.
func upgrades() []*hcmv3.HttpConnectionManager_UpgradeConfig {
	var all []*hcmv3.HttpConnectionManager_UpgradeConfig
	for _, name := range upgradeTypes() {
		all = append(all, &hcmv3.HttpConnectionManager_UpgradeConfig{UpgradeType: name})
	}
	return all
}

// passedOver matches all other offers to speak something else. Envoy takes them out
// of the request: an application that knows none of them answers as if it had passed
// over them, as it should.
func passedOver() []*envoymatcherv3.StringMatcher {
	return []*envoymatcherv3.StringMatcher{{MatchPattern: &envoymatcherv3.StringMatcher_SafeRegex{
		SafeRegex: &envoymatcherv3.RegexMatcher{Regex: noneOf(upgradeTypes()...)},
	}}}
}

// noneOf is a pattern that matches every text but some words, in upper or lower case: a text
// that differs from them at some letter, ends too early or is longer. Envoy's patterns have no
// negation.
func noneOf(words ...string) string { return "(?i)" + unlike(words) }

func unlike(words []string) string {
	rests, whole := map[string][]string{}, false
	for _, w := range words {
		if w == "" {
			whole = true
			continue
		}
		rests[regexp.QuoteMeta(w[:1])] = append(rests[regexp.QuoteMeta(w[:1])], w[1:])
	}
	if len(rests) == 0 {
		return ".+"
	}
	firsts := slices.Sorted(maps.Keys(rests))
	parts := []string{"[^" + strings.Join(firsts, "") + "].*"}
	for _, first := range firsts {
		parts = append(parts, first+"(?:"+unlike(rests[first])+")")
	}
	if !whole {
		parts = append(parts, "")
	}
	return strings.Join(parts, "|")
}
