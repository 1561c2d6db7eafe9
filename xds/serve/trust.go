package serve

import (
	"google.golang.org/grpc/metadata"

	"switchyard.dev/xds/delta"
	"switchyard.dev/xds/translate"
)

// Bundles provides the trust bundle for clients, as eventbus/trust does.
type Bundles interface {
	// Bundle returns the authorities, as PEM, nil while they are not known, and a channel
	// that is closed when there are others.
	Bundle() ([]byte, <-chan struct{})
}

// asksForTrust reports whether the client asked for the trust bundle.
func (s *stream) asksForTrust() bool {
	return s.Trust != nil && len(metadata.ValueFromIncomingContext(s.rpc.Context(), translate.TrustKey)) > 0
}

// sendTrust sends the trust bundle, and notes when it changes.
func (s *stream) sendTrust() error {
	var bundle []byte
	if bundle, s.trust = s.Trust.Bundle(); bundle == nil {
		return nil
	}
	resource, err := translate.Trust(bundle)
	if err != nil {
		return err
	}
	turn := s.await()
	if turn == nil {
		return nil
	}
	defer turn.end()
	return s.write(&delta.Response{Type: translate.TrustType, Resources: []translate.Resource{resource}}, turn)
}
