package local

import (
	"context"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/routeserver/cli/exit"
	"switchyard.dev/routeserver/cmd/switchyard/local/standing"
	"switchyard.dev/xds/routingkey"
)

// whose is whose routing key requests get: one of these, or none.
type whose struct{ sandbox, routeGroup, key string }

// find returns the routing key; empty for none.
func (w whose) find(ctx context.Context, cluster func() (client.WithWatch, error)) (string, error) {
	given := 0
	for _, one := range []string{w.sandbox, w.routeGroup, w.key} {
		if one != "" {
			given++
		}
	}
	if given > 1 {
		return "", exit.Usage.Errorf("--sandbox, --routegroup and --key each say whose routing key is meant: give one")
	}
	if w.key != "" || given == 0 {
		return w.key, nil
	}
	c, err := cluster()
	if err != nil {
		return "", err
	}
	if w.routeGroup != "" {
		o := &crdv1.SignadotRouteGroup{}
		err := c.Get(ctx, client.ObjectKey{Name: w.routeGroup}, o)
		if apierrors.IsNotFound(err) {
			return "", exit.No.Errorf("there is no route group %s", w.routeGroup)
		}
		return o.Spec.RoutingKey, err
	}
	o, err := standing.Sandbox(ctx, c, w.sandbox)
	if err != nil {
		return "", err
	}
	return o.Spec.ID, nil
}

// keyed returns what adds a routing key to the headers of a request, in all forms that the
// cluster reads: the members that others have set stay. custom are headers whose value is the key.
func keyed(key string, custom []string) (func(http.Header), error) {
	if key == "" {
		return nil, nil
	}
	if defects := routingkey.Check(key); len(defects) > 0 {
		return nil, exit.Usage.Errorf("no request can carry the routing key %q: it %s", key, defects[0].Why)
	}
	member := routingkey.Member + "=" + key
	return func(h http.Header) {
		// The last one of baggage counts, and the first one of tracestate.
		set(h, routingkey.Baggage, append(others(h, routingkey.Baggage), member))
		set(h, routingkey.Tracestate, append([]string{member}, others(h, routingkey.Tracestate)...))
		for _, name := range custom {
			h.Set(name, key)
		}
	}, nil
}

// others returns the members of a list that are not a routing key.
func others(h http.Header, name string) (out []string) {
	for _, line := range h.Values(name) {
		for member := range strings.SplitSeq(line, ",") {
			member = strings.TrimSpace(member)
			if pair, _, _ := strings.Cut(member, "="); member != "" && strings.TrimSpace(pair) != routingkey.Member {
				out = append(out, member)
			}
		}
	}
	return out
}

func set(h http.Header, name string, members []string) { h.Set(name, strings.Join(members, ",")) }
