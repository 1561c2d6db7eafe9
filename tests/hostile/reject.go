package hostile

import (
	"context"
	"fmt"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"

	"switchyard.dev/xds/translate"
)

// Form is a form in which routes are served.
type Form struct {
	Type  string
	Names []string
}

// The forms there are.
var (
	Whole   = Form{translate.RouteType, []string{translate.RouteName(customer)}}
	InParts = Form{translate.PartType, translate.PartNames(customer)}
)

// Rejected is what a client had that rejects everything.
type Rejected struct {
	// Versions is how many there were, and Responses how many came.
	Versions, Responses int
	// Again is how many resources came that the same stream had been sent before
	// at the same version.
	Again int
}

// RejectEverything makes changes while a client rejects everything that it receives; then it
// leaves and comes back so many times. The client is one of the attackers, which the caller
// selects.
func (s *Site) RejectEverything(ctx context.Context, attacker int, form Form, changes, returns int) (Rejected, error) {
	conn, err := dial(s.address)
	if err != nil {
		return Rejected{}, err
	}
	defer conn.Close()
	out := Rejected{Versions: 1 + changes}
	for turn := range 1 + returns {
		one, err := open(ctx, conn, s.attackers[attacker])
		if err != nil {
			return out, err
		}
		r := rejecting{stream: one, form: form, had: map[string]bool{}}
		err = r.begin()
		for change := 0; err == nil && turn == 0 && change < changes; change++ {
			if _, err = s.honest.change(); err == nil {
				err = r.reject()
			}
		}
		if err == nil {
			err = r.nothingMore()
		}
		one.cancel()
		out.Responses += r.responses
		out.Again += r.again
		if err != nil {
			return out, fmt.Errorf("after %d responses: %w", out.Responses, err)
		}
	}
	return out, nil
}

// rejecting is one stream of such a client.
type rejecting struct {
	*stream
	form             Form
	had              map[string]bool // resources that came, by name and version
	responses, again int
}

func (r *rejecting) begin() error {
	err := r.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.form.Type, ResourceNamesSubscribe: r.form.Names})
	if err != nil {
		return err
	}
	return r.reject()
}

// reject waits for a response and rejects it.
func (r *rejecting) reject() error {
	timer := time.AfterFunc(patience, r.cancel)
	defer timer.Stop()
	response, err := r.next()
	if err != nil {
		return err
	}
	r.responses++
	for _, one := range response.GetResources() {
		key := one.GetName() + "@" + one.GetVersion()
		if r.had[key] {
			r.again++
		}
		r.had[key] = true
	}
	return r.Send(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: r.form.Type, ResponseNonce: response.GetNonce(), ErrorDetail: &statuspb.Status{Message: "I reject everything"},
	})
}

// again is how long a server has to send a rejected version again: many times its pause between
// two responses.
const again = 500 * time.Millisecond

// nothingMore checks that no rejected version is sent again: after a while the client sends a
// request that ends the stream, and the end must be the next event.
func (r *rejecting) nothingMore() error {
	timer := time.AfterFunc(again, func() {
		_ = r.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: "made.up", ResourceNamesSubscribe: []string{"x"}}) // it ends either way
	})
	defer timer.Stop()
	late := time.AfterFunc(patience, r.cancel)
	defer late.Stop()
	response, err := r.next()
	if err == nil {
		return fmt.Errorf("the rejected response was followed by another one, with %d resources", len(response.GetResources()))
	}
	return codeIs(err, codes.InvalidArgument)
}
