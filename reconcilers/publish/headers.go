package publish

import (
	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// clusterConfig is the ConfigMap of the operator's namespace that holds its
// configuration, as the chart makes it.
const clusterConfig = "cluster-config"

// KeyHeaders returns the fact with the custom headers that carry routing keys. Its cause is the
// operator's configuration in this namespace.
func KeyHeaders(names []string, namespace string) event.Fact {
	return event.Fact{
		Key:   event.KeyHeaders,
		Cause: event.Cause{Kind: "ConfigMap", Namespace: namespace, Name: clusterConfig},
		Data:  &factv1.KeyHeadersDeclared{Names: names},
	}
}

// HeadersOf returns the headers that the fact of KeyHeaders names; none of the zero Fact.
func HeadersOf(f event.Fact) []string {
	declared, _ := f.Data.(*factv1.KeyHeadersDeclared)
	return declared.GetNames()
}
