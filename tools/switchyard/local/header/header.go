// Package header adds the routing key of a sandbox or a route group to requests.
package header

import (
	"context"
	"net/http"
	"net/textproto"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/clusterconfig"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/local/localenv"
	"switchyard.dev/xds/routingkey"
)

// Source is where the routing key of requests is from: one of these, or none.
type Source struct{ Sandbox, RouteGroup, Key string }

// Find returns the routing key; empty for none.
func (w Source) Find(ctx context.Context, cluster func() (client.WithWatch, error)) (string, error) {
	given := 0
	for _, one := range []string{w.Sandbox, w.RouteGroup, w.Key} {
		if one != "" {
			given++
		}
	}
	if given > 1 {
		return "", exit.Usage.Errorf("--sandbox, --routegroup and --key exclude each other: give one")
	}
	if w.Key != "" || given == 0 {
		return w.Key, nil
	}
	c, err := cluster()
	if err != nil {
		return "", err
	}
	if w.RouteGroup != "" {
		o := &crdv1.SignadotRouteGroup{}
		err := c.Get(ctx, client.ObjectKey{Name: w.RouteGroup}, o)
		if apierrors.IsNotFound(err) {
			return "", exit.No.Errorf("there is no route group %s", w.RouteGroup)
		}
		return o.Spec.RoutingKey, err
	}
	o, err := localenv.Sandbox(ctx, c, w.Sandbox)
	if err != nil {
		return "", err
	}
	return o.Spec.ID, nil
}

// Custom returns the cluster's headers with a routing key as their whole value; none if the
// operator's configuration cannot be read.
func Custom(ctx context.Context, access *rest.Config, operator string) []string {
	c, err := command.Client(access)
	if err != nil {
		return nil
	}
	cluster, err := clusterconfig.Installed(ctx, c, operator)
	if err != nil {
		return nil
	}
	return cluster.CustomHeaders
}

// Keyed returns a function that adds a routing key to the headers of a request, in all published
// forms: the members that others have set stay. custom are headers with the key as value.
func Keyed(key string, custom []string) (func(http.Header), error) {
	if key == "" {
		return nil, nil
	}
	if defects := routingkey.Check(key); len(defects) > 0 {
		return nil, exit.Usage.Errorf("no request can carry the routing key %q: it %s", key, defects[0].Why)
	}
	return func(h http.Header) { routingkey.Set(textproto.MIMEHeader(h), key, custom) }, nil
}
