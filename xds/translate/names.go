package translate

import (
	"strconv"

	"switchyard.dev/routeserver/table"
)

// What the routes and the proxy's bootstrap agree on.
const (
	// RouteType is the type URL of the resources served.
	RouteType = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
	// AppCluster leads to the application beside the proxy: the baseline.
	AppCluster = "app"
	// ForksCluster leads to the address in DestinationHeader: a sandbox.
	ForksCluster = "forks"
	// DestinationHeader carries the address from the matched route to
	// ForksCluster, within the proxy. It leaves the proxy in no direction.
	DestinationHeader = "x-sd-destination"
	// FilterStateKey holds the request's MatchValue.
	FilterStateKey = "signadot.com/route"
	// MetadataNamespace and TableKey are where the virtual host's metadata says
	// which version of the workload's routes this is.
	MetadataNamespace = "signadot.com"
	TableKey          = "table"
)

// What an answer says about how it was routed.
const (
	// ReasonHeader is on every answer that the proxy gives because it could not
	// reach where the request belongs; its value is one of the Reasons.
	ReasonHeader = "sd-reason"
	// RoutedHeader says where the request belonged: RoutedBaseline, or
	// RoutedSandbox and the sandbox's name, escaped with per cent signs where it
	// is not printable ASCII.
	RoutedHeader   = "sd-routed"
	RoutedBaseline = "baseline"
	RoutedSandbox  = "sandbox="
	// TableHeader says which version of the workload's routes decided.
	TableHeader = "sd-table"
	// ReasonNotReady: the sandbox exists and cannot serve yet, or any more.
	ReasonNotReady = "sandbox-not-ready"
	// ReasonNoAddress: the sandbox has no cluster IP for this port.
	ReasonNoAddress = "sandbox-has-no-address"
	// ReasonUnreachable: no connection to the destination could be made.
	ReasonUnreachable = "destination-unreachable"
	// ReasonReset: the destination closed the connection without an answer.
	ReasonReset = "destination-reset"
)

// RouteName is the name of a workload's RouteConfiguration.
func RouteName(w table.Workload) string {
	return "routes/" + w.Kind + "/" + w.Namespace + "/" + w.Name
}

// MatchValue is what a request to one of the workload's ports with a routing key
// is matched by. Ports are written in decimal, so no two pairs have one value.
func MatchValue(port uint32, routingKey string) string {
	return strconv.FormatUint(uint64(port), 10) + "/" + routingKey
}
