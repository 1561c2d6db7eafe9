package event

// Key names what a fact is about. Two facts with the same key are about the
// same thing, and the newer one counts. Make one with RoutingKey or Workload.
type Key string

// Log is the key of facts about the log itself (Complete).
const Log Key = "log"

// RoutingKey is the key of facts about one routing key.
func RoutingKey(routingKey string) Key { return Key("key/" + routingKey) }

// Workload is the key of facts about one sandboxed workload: an object of kind
// ForkedWorkload, SignadotExternalWorkload or VirtualWorkload.
func Workload(kind, namespace, name string) Key {
	return Key("workload/" + kind + "/" + namespace + "/" + name)
}
