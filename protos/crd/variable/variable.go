// Package variable has what environment variables of steps, forks and local processes share: the names
// of those of the sandbox, and the rule for values. The kernel ends a variable at a NUL byte, and
// container runtimes take UTF-8 alone. Other values can be files.
package variable

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// EnvSandboxName and EnvRoutingKey are the variables with the sandbox of a fork, a step or a local
// process.
const (
	EnvSandboxName = "SIGNADOT_SANDBOX_NAME"
	EnvRoutingKey  = "SIGNADOT_SANDBOX_ROUTING_KEY"
)

// Problem is why a value cannot be that of a variable; empty: it can.
type Problem string

// The problems.
const (
	NUL     Problem = "has a NUL byte"
	NotUTF8 Problem = "is not UTF-8"
)

// Of returns the problem of a value, and the byte of it, from 1.
func Of(value []byte) (p Problem, at int) {
	if at = bytes.IndexByte(value, 0); at >= 0 {
		return NUL, at + 1
	}
	for at = 0; at < len(value); {
		r, size := utf8.DecodeRune(value[at:])
		if r == utf8.RuneError && size <= 1 {
			return NotUTF8, at + 1
		}
		at += size
	}
	return "", 0
}

// Describe returns the problem of a value as the end of a sentence about it; empty: it has none.
func Describe(value []byte) string {
	p, at := Of(value)
	if p == "" {
		return ""
	}
	return fmt.Sprintf("%s (byte %d)", p, at)
}
