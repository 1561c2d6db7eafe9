// Package configdump reads what a running Envoy says of its own configuration
// (/config_dump of its administration interface, as JSON) and says in plain words
// what such a proxy does with a request: which headers the routing key is taken
// from, and where each key leads on each port.
//
// It shares nothing with those who write that configuration: no constant, no
// type, no generated code. It walks the JSON as anybody would who has Envoy's
// documentation and nothing else, and refuses what it does not understand, for a
// filter or a field that is passed over could lead requests elsewhere.
package configdump
