package translate

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/routeserver/table"
)

// ReadHead decodes the head that was received for a workload. Only its statements are used
// (heading): Compose generates the proxy's configuration from them. The error states the defect
// of the head.
func ReadHead(w table.Workload, r Resource) (*Head, error) {
	if r.Type != PartType || r.Name != HeadName(w) || r.Any.GetTypeUrl() != PartType {
		return nil, fmt.Errorf("%.200q of type %.200q is not the head %q", r.Name, r.Any.GetTypeUrl(), HeadName(w))
	}
	content := r.Any.GetValue()
	host := &routev3.VirtualHost{}
	if err := proto.Unmarshal(content, host); err != nil {
		return nil, fmt.Errorf("%s: %w", r.Name, err)
	}
	says, err := headingIn(host)
	if err == nil {
		err = checkCustom(says.keyHeaders)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Name, err)
	}
	return &Head{workload: w, says: says, content: content, hash: sha256.Sum256(content)}, nil
}

// AtEdge returns the head for the sidecar of an edge, which takes custom headers that carry
// keys out of requests. Baggage and tracestate hold more than keys: package devmesh.
func (h *Head) AtEdge() *Head {
	at := *h
	at.says.edge = true
	return &at
}

// Returning returns the head for a sidecar with this secret, which requests have that come back to it after they were
// recorded. It has to be the same as long as the proxy runs, and must not be empty.
func (h *Head) Returning(secret string) *Head {
	with := *h
	with.says.secret = secret
	return &with
}

// ReadPart decodes a part that was received for a workload, and returns its index in Parts. The
// error states the defect of the part. Part.Unfit checks what its routes do.
func ReadPart(w table.Workload, r Resource) (int, *Part, error) {
	i, err := PlaceOf(w, r.Name)
	if err != nil {
		return 0, nil, err
	}
	if r.Type != PartType || r.Any.GetTypeUrl() != PartType {
		return 0, nil, fmt.Errorf("%s is of type %.200q", r.Name, r.Any.GetTypeUrl())
	}
	if err := proto.Unmarshal(r.Any.GetValue(), &routev3.VirtualHost{}); err != nil {
		return 0, nil, fmt.Errorf("%s: %w", r.Name, err)
	}
	hash := sha256.Sum256(r.Any.GetValue())
	p, err := partIn(r, hash)
	if err == nil {
		err = mapEntries(p.entries, func(value string, _ []byte) error { return checkMatchValue(value) })
	}
	if err == nil {
		err = checkInput(p.input)
	}
	if err == nil && r.Version != shortened(hash) {
		err = fmt.Errorf("its version is %.200q and its content that of version %s", r.Version, shortened(hash))
	}
	if err != nil {
		return 0, nil, fmt.Errorf("%s: %w", r.Name, err)
	}
	return i, p, nil
}

// PlaceOf returns which part of a workload has a name.
func PlaceOf(w table.Workload, name string) (int, error) {
	label, ok := strings.CutPrefix(name, RouteName(w)+"/")
	i, err := strconv.ParseUint(label, 16, 8)
	if !ok || err != nil || i >= PartCount || partLabel(int(i)) != label {
		return 0, fmt.Errorf("%.200q is no part of %s", name, RouteName(w))
	}
	return int(i), nil
}

// Compose puts parts together: the RouteConfiguration that Envoy takes, with the version of the
// whole. The parts are copied as bytes, with the destinations where the proxy reads them; the
// head is generated from its statements. It returns an error if the parts do not belong together.
func Compose(h *Head, parts *Parts) (Resource, error) {
	var input []byte
	var entries [][]byte
	says := h.says
	says.secret = "" // unless it is needed
	for i, p := range parts {
		if p == nil {
			continue
		}
		if input == nil {
			input = p.input
		}
		if !bytes.Equal(input, p.input) {
			return Resource{}, fmt.Errorf("part %s has another map input than the parts before it", partLabel(i))
		}
		ready, returns, err := forProxy(p.entries, h.says.secret != "")
		if returns {
			says.secret = h.says.secret
		}
		if err != nil {
			return Resource{}, fmt.Errorf("part %s: %w", partLabel(i), err)
		}
		entries = append(entries, ready)
	}
	around, err := hostOf(says)
	if err != nil {
		return Resource{}, fmt.Errorf("the head of %s: %w", RouteName(h.workload), err)
	}
	head, err := proto.MarshalOptions{Deterministic: true}.Marshal(around)
	if err != nil {
		return Resource{}, fmt.Errorf("write the head of %s: %w", RouteName(h.workload), err)
	}
	host, err := spliced(head, input, entries)
	if err != nil {
		return Resource{}, fmt.Errorf("put the routes of %s together: %w", RouteName(h.workload), err)
	}
	name := RouteName(h.workload)
	before := appendHeader(field(nil, configName, []byte(name)), configHosts, total(host))
	after, err := proto.MarshalOptions{Deterministic: true}.Marshal(forAll())
	if err != nil {
		return Resource{}, fmt.Errorf("write the routes of %s: %w", RouteName(h.workload), err)
	}
	content := append(append([][]byte{before}, host...), after)
	return written(RouteType, name, versionOf(h, parts), content...), nil
}

// keptBody is how much of a request's body a proxy keeps in case that it has to connect to a
// fork again (package devmesh); a request with a longer one is not tried again. Envoy would
// keep as much as connections may buffer, for every upload that a fork has not answered yet.
const keptBody = 16 << 10

// hostOf returns the virtual host that a proxy takes, without the map.
func hostOf(says heading) (*routev3.VirtualHost, error) {
	host, err := headOf(says)
	if err != nil {
		return nil, err
	}
	host.RequestBodyBufferLimit = wrapperspb.UInt64(keptBody)
	// A client's own; a route that still has its destination in this header adds it after that.
	host.RequestHeadersToRemove = append(host.RequestHeadersToRemove, DestinationHeader, ReturnHeader)
	if says.secret != "" {
		host.Metadata.FilterMetadata[MetadataNamespace].Fields[ReturnKey] = structpb.NewStringValue(says.secret)
	}
	if host.TypedPerFilterConfig, err = perHost(says.keyHeaders, KeyExtraction); err != nil {
		return nil, err
	}
	if host.TypedPerFilterConfig == nil {
		host.TypedPerFilterConfig = map[string]*anypb.Any{}
	}
	if host.TypedPerFilterConfig[DestinationFilter], err = packed(noteDestination()); err != nil {
		return nil, err
	}
	return host, switchOn(host, says)
}

// forAll applies to all requests, next to the virtual host: it restores the client's
// x-forwarded-proto over the proxy's own. It is added here and not in the head, so that it
// matches the bootstrap of the program that runs the proxy, which moves the client's value
// aside; the head then removes the copy, because its mutations are applied after these.
func forAll() *routev3.RouteConfiguration {
	const forwardedProto = "x-forwarded-proto"
	return &routev3.RouteConfiguration{
		MostSpecificHeaderMutationsWins: true,
		RequestHeadersToRemove:          []string{forwardedProto},
		RequestHeadersToAdd: []*corev3.HeaderValueOption{{
			Header:       &corev3.HeaderValue{Key: forwardedProto, Value: "%REQ(" + ProtoHeader + ")%"},
			AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		}},
	}
}

// Refit converts routes that another release of this program composed to this release's form:
// it keeps their destinations and regenerates the rest as Compose does. Otherwise routes that
// were kept on disk would not enable the filters of the current proxy, and requests with keys
// would reach the baseline. It returns an error if r is not a composed RouteConfiguration. For
// the sidecar of an edge it also removes what Head.AtEdge removes. No requests come back: see Portable.
func Refit(r Resource, edge bool) (Resource, error) {
	config := &routev3.RouteConfiguration{}
	if err := r.Any.UnmarshalTo(config); err != nil {
		return Resource{}, fmt.Errorf("%s: %w", r.Name, err)
	}
	if n := len(config.VirtualHosts); n != 1 {
		return Resource{}, fmt.Errorf("%s has %d virtual hosts, not one", r.Name, n)
	}
	was := config.VirtualHosts[0]
	says, err := headingIn(was)
	if err != nil {
		return Resource{}, fmt.Errorf("%s: %w", r.Name, err)
	}
	says.edge = edge
	for _, match := range was.Matcher.GetMatcherTree().GetExactMatchMap().GetMap() { // as forProxy does, without a secret
		route := match.GetAction().GetTypedConfig()
		if edited, err := inMetadata(route.GetValue(), false); err == nil && route.TypeUrl == routeType {
			route.TypeUrl, route.Value = movedType, edited
		}
	}
	host, err := hostOf(says)
	if err != nil {
		return Resource{}, fmt.Errorf("%s: %w", r.Name, err)
	}
	host.Matcher.MatcherType = was.Matcher.MatcherType
	whole := forAll()
	whole.Name, whole.VirtualHosts = config.Name, []*routev3.VirtualHost{host}
	content, err := proto.MarshalOptions{Deterministic: true}.Marshal(whole)
	if err != nil {
		return Resource{}, fmt.Errorf("write %s: %w", r.Name, err)
	}
	return written(RouteType, r.Name, r.Version, content), nil
}

// versionOf is the version of the whole.
func versionOf(h *Head, parts *Parts) string {
	sum := sha256.New()
	sum.Write(h.hash[:])
	for i, p := range parts {
		if p != nil {
			sum.Write([]byte{byte(i)})
			sum.Write(p.hash[:])
		}
	}
	return shortened([32]byte(sum.Sum(nil)))
}

// StandIn returns the replacement for a part that the proxy refused. Each of its match values
// has the entry of the part that the proxy last accepted (good, which can be nil); values that
// are missing there are refused with ReasonRefused, so that no known key reaches the baseline,
// except keys with requests that stay at the baseline. Values that are not in the refused part are
// dropped.
func StandIn(w table.Workload, refused, good *Part) (*Part, error) {
	i, err := PlaceOf(w, refused.Name)
	if err != nil {
		return nil, err
	}
	had, err := good.byValue()
	if err != nil {
		return nil, err
	}
	var entries []byte
	err = mapEntries(refused.entries, func(value string, raw []byte) error {
		if was, ok := had[value]; ok {
			entries = append(entries, was...)
			return nil
		}
		sandbox, kept := sandboxIn(raw)
		if kept {
			return nil // Without an entry the request reaches the baseline, as it is to.
		}
		written, err := entry(value, refusal(RoutedSandbox+sandbox, ReasonRefused, fmt.Sprintf(
			"sandbox %q holds this routing key and the proxy refused its route; the route server knows why", sandbox)))
		entries = append(entries, written...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return newPart(w, i, refused.input, entries)
}

// Differing returns the names of the sandboxes in a part with entries that another part, which
// can be nil, does not have: sorted, each once, as in RoutedHeader.
func Differing(p, from *Part) []string {
	had, err := from.byValue()
	if err != nil {
		return nil
	}
	var names []string
	err = mapEntries(p.entries, func(value string, raw []byte) error {
		if !bytes.Equal(had[value], raw) {
			name, _ := sandboxIn(raw)
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		return nil
	}
	return lists.Unique(names)
}

// byValue returns the entries of a part, which may be nil.
func (p *Part) byValue() (map[string][]byte, error) {
	if p == nil {
		return nil, nil
	}
	out := map[string][]byte{}
	err := mapEntries(p.entries, func(value string, raw []byte) error {
		out[value] = raw
		return nil
	})
	return out, err
}

// sandboxIn returns the name of the sandbox that an entry is for, as far as it can be
// read, and whether its requests are kept at the baseline.
func sandboxIn(raw []byte) (name string, kept bool) {
	route, err := routeIn(raw)
	if err != nil {
		return "unknown", false
	}
	if name, kept = strings.CutPrefix(route.GetName(), RoutedKept); kept {
		return strings.TrimSuffix(name, RoutedRecorded), true
	}
	name, _ = strings.CutPrefix(route.GetName(), RoutedSandbox)
	return name, false
}
