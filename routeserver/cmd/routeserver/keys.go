package main

import (
	"strings"

	"switchyard.dev/routeserver/api"
	"switchyard.dev/xds/routingkey"
)

// keys reads the routing key of a request as the sidecars do, and names the
// header that it was taken from: the first, by precedence, that holds one when
// it is looked at alone.
func keys(custom []string) api.Keys {
	return func(lines func(name string) []string) (key, header string) {
		for _, name := range append([]string{routingkey.Baggage, routingkey.Tracestate}, custom...) {
			only := func(asked string) []string {
				if strings.EqualFold(asked, name) {
					return lines(asked)
				}
				return nil
			}
			if key := routingkey.Of(only, custom); key != "" {
				return key, strings.ToLower(name)
			}
		}
		return "", ""
	}
}
