package routingkey

import (
	"slices"
	"strings"
)

// The header members that may hold a routing key.
const (
	// Member is the name of the list member in Baggage and Tracestate.
	Member = "sd-routing-key"
	// Baggage is the W3C baggage header, which is read first.
	Baggage = "baggage"
	// Tracestate is the W3C trace context header, which is read second.
	Tracestate = "tracestate"
	// MaxLength bounds a key: one of so many bytes or more is none.
	MaxLength = 8192

	// separator ends a value in every form, property in baggage only.
	separator = ","
	property  = ";"
)

// Of returns the routing key of a request, or "" when it has none. The function lines returns
// the values of all header lines of a name (lower case), in order, with or without white space
// at their ends; custom lists further headers that carry a key as their whole value, by
// precedence. Those that CheckHeader refuses do not count.
func Of(lines func(name string) []string, custom []string) string {
	if key := last(members(lines(Baggage), Member, property)); key != "" {
		return key
	}
	if key := first(members(lines(Tracestate), Member, "")); key != "" {
		return key
	}
	for _, name := range usable(custom) {
		if key := sound(single(lines(name))); key != "" {
			return key
		}
	}
	return ""
}

// Find returns the routing key of a request as Of does, and the name of the header that holds
// it: the first, by precedence, that yields a key on its own. Both are empty when the request
// has none.
func Find(lines func(name string) []string, custom []string) (key, header string) {
	for _, name := range append([]string{Baggage, Tracestate}, usable(custom)...) {
		only := func(asked string) []string {
			if asked == name {
				return lines(asked)
			}
			return nil
		}
		if key := Of(only, custom); key != "" {
			return key, name
		}
	}
	return "", ""
}

// single returns the value of a header that is no list, "" when there are several.
func single(lines []string) string {
	value := strings.Join(lines, separator)
	if strings.Contains(value, separator) {
		return ""
	}
	return trim(value)
}

// members returns the values of the members of a name that count, in order. A value ends at
// stop, when that is not empty.
func members(lines []string, of, stop string) []string {
	var values []string
	for member := range strings.SplitSeq(strings.Join(lines, separator), separator) {
		if stop != "" {
			member, _, _ = strings.Cut(member, stop)
		}
		name, value, isPair := strings.Cut(member, "=")
		if !isPair || trim(name) != of {
			continue
		}
		if value = trim(value); value != "" {
			values = append(values, value)
		}
	}
	return values
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return sound(values[0])
}

func last(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return sound(values[len(values)-1])
}

// Without returns the members of a header that is a list, Baggage or Tracestate, without those of some names, in order
// and without white space at their ends.
func Without(lines []string, names ...string) (others []string) {
	for member := range strings.SplitSeq(strings.Join(lines, separator), separator) {
		name, _, _ := strings.Cut(member, "=")
		if member = trim(member); member != "" && !slices.Contains(names, trim(name)) {
			others = append(others, member)
		}
	}
	return others
}

// sound returns the value if it may be a key, else "".
func sound(value string) string {
	if len(value) >= MaxLength {
		return ""
	}
	return value
}

func trim(s string) string { return strings.Trim(s, " \t") }
