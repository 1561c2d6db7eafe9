package routingconfig

import (
	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/publish"
)

// Declared returns the fact that declares the routing key and members of the RoutingConfig.
func Declared(c *crdv1.RoutingConfig, d *factv1.RoutingDeclared) event.Fact {
	return event.Fact{
		Key:   event.RoutingKey(d.GetRoutingKey()),
		Cause: publish.CauseOf(crdv1.KindRoutingConfig, c),
		Data:  d,
	}
}

// Withdrawn returns the fact that the RoutingConfig does not declare the key.
func Withdrawn(c *crdv1.RoutingConfig, key string) event.Fact {
	return event.Fact{
		Key:   event.RoutingKey(key),
		Cause: publish.MakerOf(crdv1.KindRoutingConfig, c),
		Data:  &factv1.RoutingWithdrawn{RoutingKey: key},
	}
}
