package routingkey

import (
	"fmt"
	"slices"
	"strings"
)

// Selection is the name of the member of Baggage that selects middlewares:
//
//	sd-traffic = "none" / name *( "+" name )
//
// It is read as the routing key is, and counts only in requests with a key that is known.
const Selection = "sd-traffic"

const (
	noMiddleware = "none"
	nextName     = "+"
)

// Selects reports whether a request uses the middleware of a name, which is one of all that are before its destination. A
// request without a Selection uses all, and so does one whose Selection is wrong, for the reason that is returned. The
// function lines is as in Of.
func Selects(lines func(name string) []string, middleware string, all []string) (uses bool, wrong string) {
	value := last(members(lines(Baggage), Selection, property))
	if value == "" {
		return true, ""
	}
	if value == noMiddleware {
		return false, ""
	}
	names := strings.Split(value, nextName)
	for _, name := range names {
		if !slices.Contains(all, name) {
			return true, fmt.Sprintf("%s selects %q, which is none of %s", Selection, name[:min(len(name), maxName)], strings.Join(all, ", "))
		}
	}
	return slices.Contains(names, middleware), ""
}

// maxName bounds the name of a middleware.
const maxName = 253
