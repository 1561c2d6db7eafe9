package routingkey

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A token of RFC 9110, as header names are.
var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// notCustom are headers that cannot carry a key as their whole value: they have a format of
// their own, end at the next hop, or occur in requests without a key, which a sandbox could
// then capture by choosing a common value as its key.
var notCustom = []string{
	Baggage, Tracestate, "host", "connection", "transfer-encoding",
	"te", "upgrade", "keep-alive", "trailer",
	"cookie", // HTTP/2 sends it in pieces, joined otherwise
	"authorization", "b3", "cache-control", "dnt", "expect", "forwarded", "from", "origin",
	"pragma", "priority", "range", "referer", "traceparent", "upgrade-insecure-requests",
	"user-agent", "via", "x-real-ip", "x-request-id", "x-requested-with",
}

// notCustomAs are how names of headers begin that clients and proxies send of their own
// accord.
var notCustomAs = []string{"accept", "content-", "grpc-", "if-", "proxy-", "sec-", "x-b3-", "x-envoy-", "x-forwarded-"}

// ReservedPrefixes returns how the names begin, in lower case, of the headers that
// CheckHeader refuses beside those of Reserved.
func ReservedPrefixes() []string { return slices.Clone(notCustomAs) }

// Reserved returns the names, in lower case, of the headers that CheckHeader refuses
// although HTTP allows them.
func Reserved() []string { return slices.Clone(notCustom) }

// CheckHeader returns an error with the reason if the header of this name cannot carry a
// routing key as its whole value.
func CheckHeader(name string) error {
	switch {
	case !headerName.MatchString(name):
		return fmt.Errorf("%q is not the name of a request header", name)
	case slices.Contains(notCustom, strings.ToLower(name)), slices.ContainsFunc(notCustomAs, begins(name)):
		return fmt.Errorf("header %q cannot carry a routing key: it has a meaning for clients, proxies or servers; choose a plain request header", name)
	}
	return nil
}

// usable returns the custom headers that can carry a key, in lower case.
func usable(custom []string) []string {
	var names []string
	for _, name := range custom {
		if CheckHeader(name) == nil {
			names = append(names, strings.ToLower(name))
		}
	}
	return names
}

// begins reports of the beginning of a name, in lower case, whether a name has it.
func begins(name string) func(beginning string) bool {
	return func(beginning string) bool { return strings.HasPrefix(strings.ToLower(name), beginning) }
}
