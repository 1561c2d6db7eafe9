package translate

import (
	"encoding/hex"
	"fmt"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"switchyard.dev/routeserver/table"
)

// Resource is one xDS resource, written out.
type Resource struct {
	// Type is its type URL and Name its name.
	Type, Name string
	// Version is a hash of the content: equal exactly when the content is.
	Version string
	// Any is the resource. It is shared: read only.
	Any *anypb.Any
	// Encoded is the resource as the field of a delta discovery response, so that many
	// responses can share it without marshaling it again. Read only. Nil if it has not been
	// built; it can be built from the other fields.
	Encoded []byte
}

// NoTable is the version that answers name when they were routed without any
// table: the control plane has not been reached yet.
const NoTable = "none"

// Resources returns the configuration of a plain Envoy of one workload: its RouteConfiguration,
// the one resource in the list. For a workload without rules that sends everything to the
// baseline. The table must be whole. The error names the sandbox with a rule that protobuf
// cannot encode (text that is not UTF-8).
func Resources(t table.Table, w table.Workload) ([]Resource, error) {
	routes, err := Translate(t, w)
	if err != nil {
		return nil, err
	}
	whole, err := routes.Whole()
	return []Resource{whole}, err
}

// Baseline returns the resources that send everything to the baseline, for a sidecar that has
// never reached the control plane. Its responses, when asked to explain, give the version
// NoTable.
func Baseline(w table.Workload) ([]Resource, error) {
	routes, err := emptyRoutes(w, heading{tableVersion: NoTable})
	if err != nil {
		return nil, fmt.Errorf("translate the routes of %s %s/%s: %w", w.Kind, w.Namespace, w.Name, err)
	}
	whole, err := routes.Whole()
	return []Resource{whole}, err
}

// written returns a resource with these contents. Everything it holds shares one
// piece of memory.
func written(typeURL, name, version string, content ...[]byte) Resource {
	size := total(content)
	const around = 32 // tags and lengths
	// From the inside to the outside, but written in order: lengths come first.
	typed := field(make([]byte, 0, len(typeURL)+around), anyType, []byte(typeURL))
	inAny := len(typed) + sizeOfField(size)
	body := sizeOfField(len(version)) + sizeOfField(inAny) + sizeOfField(len(name))
	b := make([]byte, 0, body+around)
	b = appendHeader(b, deltaResources, body)
	b = field(b, deltaVersion, []byte(version))
	b = appendHeader(b, deltaAny, inAny)
	b = append(b, typed...)
	b = appendHeader(b, anyValue, size)
	start := len(b)
	for _, c := range content {
		b = append(b, c...)
	}
	value := b[start:len(b):len(b)]
	b = field(b, deltaName, []byte(name))
	return Resource{
		Type: typeURL, Name: name, Version: version,
		Any: &anypb.Any{TypeUrl: typeURL, Value: value}, Encoded: b,
	}
}

// shortened is a hash in the form of a version.
func shortened(hash [32]byte) string { return hex.EncodeToString(hash[:16]) }

// The trust bundle is sent to clients on their stream too, besides the routes: at the beginning
// and whenever it changes. Such a response has no nonce and is not answered.
const (
	// TrustType is its type URL.
	TrustType = "type.googleapis.com/google.protobuf.BytesValue"
	// TrustKey is the key in the metadata of a call that asks for it, with any value.
	TrustKey = "switchyard-trust"
	// trustName is the name of its one resource.
	trustName = "trust"
)

// Trust returns a bundle of authorities as a resource.
func Trust(bundle []byte) (Resource, error) {
	value, err := anypb.New(wrapperspb.Bytes(bundle))
	if err != nil {
		return Resource{}, fmt.Errorf("write the trust bundle: %w", err)
	}
	return Resource{Type: TrustType, Name: trustName, Any: value}, nil
}

// ReadTrust returns the bundle of a response of TrustType.
func ReadTrust(r *discoveryv3.DeltaDiscoveryResponse) ([]byte, error) {
	if n := len(r.GetResources()); n != 1 || r.GetResources()[0].GetName() != trustName {
		return nil, fmt.Errorf("a response with a trust bundle has %d resources and must have one, named %q", n, trustName)
	}
	var bundle wrapperspb.BytesValue
	if err := r.GetResources()[0].GetResource().UnmarshalTo(&bundle); err != nil {
		return nil, fmt.Errorf("read the trust bundle: %w", err)
	}
	return bundle.GetValue(), nil
}
