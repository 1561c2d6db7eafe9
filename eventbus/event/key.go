package event

import (
	"fmt"
	"strings"
)

// Key names what a fact is about. Two facts with the same key are about the
// same thing, and the newer one counts. Make one with RoutingKey or Workload.
type Key string

// Log is the key of facts about the log itself (Complete).
const Log Key = "log"

// LogFloor is the key of facts about where the log may begin (Floor).
const LogFloor Key = "floor"

// KeyHeaders is the key of facts about which headers carry a routing key
// (KeyHeadersDeclared).
const KeyHeaders Key = "headers"

// keyHead begins the key of a routing key. Routing keys are the only names that
// may hold any character, a slash too.
const keyHead = "key"

const workloadHead = "workload"

// RoutingKey is the key of facts about one routing key.
func RoutingKey(routingKey string) Key { return Key(keyHead + "/" + routingKey) }

// Workload is the key of facts about one sandboxed workload: an object of kind
// ForkedWorkload, SignadotExternalWorkload or VirtualWorkload.
func Workload(kind, namespace, name string) Key {
	return Key(workloadHead + "/" + kind + "/" + namespace + "/" + name)
}

// Subject writes the key as the tokens of a NATS subject: RoutingKey("a.b") is
// key.a=2Eb. Every byte outside A-Z a-z 0-9 _ - becomes = and two hexadecimal
// digits, and an empty part is a lone =, so that any key gives a valid subject
// and no two keys the same one. A log puts it behind a prefix of its own.
func (k Key) Subject() string {
	parts := strings.Split(string(k), "/")
	if parts[0] == keyHead && len(parts) > 1 {
		parts = []string{keyHead, strings.Join(parts[1:], "/")}
	}
	for i, part := range parts {
		if parts[i] = escape(part, '=', isPlain); part == "" {
			parts[i] = "="
		}
	}
	return strings.Join(parts, ".")
}

// KeyOf reads back what Subject wrote. An error means that no key is written so.
func KeyOf(subject string) (Key, error) {
	tokens := strings.Split(subject, ".")
	for i, token := range tokens {
		if token == "=" {
			tokens[i] = ""
			continue
		}
		part, err := unescape(token, '=')
		if err != nil {
			return "", fmt.Errorf("subject %q is not a key: token %q is not escaped as keys are", subject, token)
		}
		tokens[i] = part
	}
	key := Key(strings.Join(tokens, "/"))
	// Other spellings than Subject's are not this project's.
	if key.Subject() != subject {
		return "", fmt.Errorf("subject %q is not a key: the key %q is written %q", subject, key, key.Subject())
	}
	return key, nil
}

// isPlain reports whether a byte needs no escape in a subject.
func isPlain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}
