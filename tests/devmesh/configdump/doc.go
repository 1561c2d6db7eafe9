// Package configdump reads the configuration that a running Envoy reports (/config_dump of its
// administration interface, as JSON) and describes what such a proxy does with a request: the
// headers that the routing key is taken from, and the destination of each key on each port.
//
// It shares nothing with the writers of that configuration: no constant, no type, no generated
// code. It walks the JSON by Envoy's documentation alone, and refuses everything that it does not
// understand, because a filter or a field that is ignored could route requests elsewhere.
package configdump
