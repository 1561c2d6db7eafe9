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
	var b strings.Builder
	for i, part := range parts {
		if i > 0 {
			b.WriteByte('.')
		}
		escapeToken(&b, part)
	}
	return b.String()
}

// KeyOf reads back what Subject wrote. An error means that no key is written so.
func KeyOf(subject string) (Key, error) {
	tokens := strings.Split(subject, ".")
	for i, token := range tokens {
		part, ok := unescapeToken(token)
		if !ok {
			return "", fmt.Errorf("subject %q is not a key: token %q is not escaped as keys are", subject, token)
		}
		tokens[i] = part
	}
	key := Key(strings.Join(tokens, "/"))
	// What is not written in the one way that Subject writes is somebody else's.
	if key.Subject() != subject {
		return "", fmt.Errorf("subject %q is not a key: the key %q is written %q", subject, key, key.Subject())
	}
	return key, nil
}

const upperHex = "0123456789ABCDEF"

func escapeToken(b *strings.Builder, part string) {
	if part == "" {
		b.WriteByte('=')
		return
	}
	for i := range len(part) {
		c := part[i]
		if isPlain(c) {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('=')
		b.WriteByte(upperHex[c>>4])
		b.WriteByte(upperHex[c&15])
	}
}

func unescapeToken(token string) (string, bool) {
	if token == "=" {
		return "", true
	}
	var b strings.Builder
	for i := 0; i < len(token); i++ {
		if token[i] != '=' {
			b.WriteByte(token[i])
			continue
		}
		c, ok := hexByte(token[i+1:])
		if !ok {
			return "", false
		}
		b.WriteByte(c)
		i += 2
	}
	return b.String(), token != ""
}

func isPlain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// hexByte reads the byte that the first two upper-case hexadecimal digits of s
// stand for.
func hexByte(s string) (byte, bool) {
	if len(s) < 2 {
		return 0, false
	}
	high, low := strings.IndexByte(upperHex, s[0]), strings.IndexByte(upperHex, s[1])
	return byte(high<<4 | low&15), high >= 0 && low >= 0
}
