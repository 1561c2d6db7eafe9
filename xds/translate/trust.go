package translate

import (
	"fmt"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

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
