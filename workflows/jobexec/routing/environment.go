package routing

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpproxy"
)

// proxied are the variables by which clients find a proxy.
var proxied = []string{"http_proxy", "https_proxy", "grpc_proxy"}

// NoProxy are the variables with the hosts that clients do not use a proxy for.
var NoProxy = []string{"no_proxy", "NO_PROXY"}

// Environment returns variables that make clients use the proxy at an address, as pairs of name and value.
func Environment(address string) (out [][2]string) {
	for _, name := range proxied {
		out = append(out, [2]string{name, "http://" + address}, [2]string{strings.ToUpper(name), "http://" + address})
	}
	return out
}

// overridden returns why a script may not use the proxy, for variables that come after those of Environment; empty: it
// does if its clients obey them.
func overridden(env [][2]string) string {
	for _, v := range slices.Backward(env) {
		if slices.Contains(proxied, strings.ToLower(v[0])) {
			return fmt.Sprintf("%s in spec.env replaces the proxy that counts requests and adds the routing key: remove it", v[0])
		}
	}
	return ""
}

// covers returns a caveat if a value of no_proxy covers Services of the cluster, one of which has an address; empty: it
// does not.
func covers(noProxy, service string) string {
	use := (&httpproxy.Config{HTTPProxy: "http://proxy", NoProxy: noProxy}).ProxyFunc()
	hosts := []string{"name.namespace", "name.namespace.svc", "name.namespace.svc.cluster.local"}
	if service != "" {
		hosts = append(hosts, service)
	}
	for _, host := range hosts {
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		if to, err := use(&url.URL{Scheme: "http", Host: host}); err == nil && to == nil {
			return fmt.Sprintf("no_proxy is %.256q, which covers Services of the cluster (%s): requests to them do not use the proxy that adds the routing key. Remove these hosts from no_proxy", noProxy, host)
		}
	}
	return ""
}

// caveat returns why requests of a script may not use the proxy: env are the variables of the job, and container is the
// no_proxy of the main container.
func caveat(env [][2]string, container []string, service string) string {
	values := slices.Clone(container)
	for _, name := range NoProxy {
		for _, v := range slices.Backward(env) {
			if v[0] == name {
				values = append(values, v[1])
				break
			}
		}
	}
	found := []string{overridden(env)}
	for _, value := range values {
		found = append(found, covers(value, service))
	}
	return sentences(found)
}

// sentences joins texts that are not empty, each once.
func sentences(found []string) string {
	found = slices.DeleteFunc(found, func(text string) bool { return text == "" })
	return strings.Join(slices.Compact(found), ". ")
}
