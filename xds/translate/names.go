package translate

import (
	"strconv"

	"switchyard.dev/routeserver/table"
)

// What the routes and the proxy's bootstrap agree on.
const (
	// RouteType is the type URL of the resources served.
	RouteType = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
	// PartType is the type URL of the same routes in parts: a head and up to
	// PartCount parts.
	PartType = "type.googleapis.com/envoy.config.route.v3.VirtualHost"
	// PartCount is how many parts there can be.
	PartCount = 64
	// AppCluster is the application in the proxy's pod: the baseline.
	AppCluster = "app"
	// ForksCluster is the destination of the matched route, which DestinationFilter notes: a
	// sandbox.
	ForksCluster = "forks"
	// DestinationHeader carries the destination of a route in a part. Routes that Compose gives
	// have it in their metadata. It leaves the proxy in no direction.
	DestinationHeader = "x-sd-destination"
	// ProtoHeader carries the client's x-forwarded-proto past where the proxy sets one
	// of its own; the routes put it back, and nothing when there was none.
	ProtoHeader = "x-sd-forwarded-proto"
	// ReturnHeader is on requests that a proxy sends to where they are recorded, with a secret of
	// that proxy. They come back to it with the header, and it sends them to the application.
	// No application gets it, and that of a caller is removed.
	ReturnHeader = "sd-return"
	// FilterStateKey holds the request's MatchValue.
	FilterStateKey = "signadot.com/route"
	// MetadataNamespace and TableKey are the path of the version of the workload's routes in
	// the virtual host's metadata.
	MetadataNamespace = "signadot.com"
	TableKey          = "table"
	// ReturnKey is the path of the proxy's secret there, while it is in use.
	ReturnKey = "return"
)

// Response headers that report how a request was routed.
const (
	// ReasonHeader is on every answer that the proxy gives because it could not
	// reach where the request belongs; its value is one of the Reasons.
	ReasonHeader = "sd-reason"
	// RoutedHeader names the destination that the request belonged to: RoutedBaseline, or
	// RoutedSandbox or RoutedKept and the sandbox's name, escaped with per cent signs where it
	// is not printable ASCII.
	RoutedHeader   = "sd-routed"
	RoutedBaseline = "baseline"
	RoutedSandbox  = "sandbox="
	// RoutedKept and the sandbox's name: the baseline, which is where this sandbox
	// wants its requests.
	RoutedKept = "baseline-for="
	// RoutedRecorded follows that where the requests pass traffic-manager, which records them, on
	// their way.
	RoutedRecorded = ";via=traffic-manager"
	// TableHeader is the version of the workload's routes that decided.
	TableHeader = "sd-table"
	// ReasonNotReady: the sandbox exists and cannot serve yet, or any more.
	ReasonNotReady = "sandbox-not-ready"
	// ReasonNoAddress: the sandbox has no cluster IP for this port.
	ReasonNoAddress = "sandbox-has-no-address"
	// ReasonRefused: the proxy refused the sandbox's route, so it has none.
	ReasonRefused = "sandbox-route-refused"
	// ReasonUnreachable: no connection to the destination could be made.
	ReasonUnreachable = "destination-unreachable"
	// ReasonReset: the destination closed the connection without an answer.
	ReasonReset = "destination-reset"
)

// RouteName is the name of a workload's RouteConfiguration.
func RouteName(w table.Workload) string {
	return "routes/" + w.Kind + "/" + w.Namespace + "/" + w.Name
}

// HeadName is the name of the head of a workload's routes in parts.
func HeadName(w table.Workload) string { return RouteName(w) + "/head" }

// PartName is the name of one of the parts, 0 to PartCount-1.
func PartName(w table.Workload, i int) string { return RouteName(w) + "/" + partLabel(i) }

// PartNames are the names that a client of the parts subscribes to: the head and
// all parts, sorted.
func PartNames(w table.Workload) []string {
	names := make([]string, 0, PartCount+1)
	for i := range PartCount {
		names = append(names, PartName(w, i))
	}
	return append(names, HeadName(w)) // "h" comes after all digits of parts
}

// partLabel returns two hexadecimal digits, 00 to 3f.
func partLabel(i int) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[i>>4&15], digits[i&15]})
}

// partOf returns the part that the entry of a match value is in. It is FNV-1a, mixed
// so that values that differ in their last letters are spread too.
func partOf(matchValue string) int {
	const offset, prime, mix, bits = 14695981039346656037, 1099511628211, 0x9E3779B97F4A7C15, 6
	h := uint64(offset)
	for i := range len(matchValue) {
		h = (h ^ uint64(matchValue[i])) * prime
	}
	return int((h ^ h>>32) * mix >> (64 - bits))
}

// MatchValue is what a request to one of the workload's ports with a routing key
// is matched by. Ports are written in decimal, so no two pairs have one value.
func MatchValue(port uint32, routingKey string) string {
	return strconv.FormatUint(uint64(port), 10) + "/" + routingKey
}
