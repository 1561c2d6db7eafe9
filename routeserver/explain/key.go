package explain

import (
	"fmt"
	"strings"
)

// Header is one header line of a request.
type Header struct {
	Name, Value string
}

// member is the name of the list member that holds a routing key in a header
// that holds more than the key.
const member = "sd-routing-key"

// memberHeaders are the headers that hold such members.
var memberHeaders = [...]string{"baggage", "tracestate"}

// Lines returns the values of all header lines of a name, in order. Names do not
// distinguish upper and lower case.
func Lines(headers []Header, name string) []string {
	var out []string
	for _, h := range headers {
		if strings.EqualFold(h.Name, name) {
			out = append(out, h.Value)
		}
	}
	return out
}

// WhyNoKey returns the reason why these headers contain no routing key, as the continuation of "the
// request carries no routing key: ".
func WhyNoKey(headers []Header) string {
	var why []string
	for _, name := range memberHeaders {
		lines := Lines(headers, name)
		if len(lines) == 0 {
			continue
		}
		if strings.Contains(strings.Join(lines, ","), member) {
			why = append(why, fmt.Sprintf("%s names %s without a value that can be a key", name, member))
		} else {
			why = append(why, fmt.Sprintf("%s carries no %s member", name, member))
		}
	}
	if len(Lines(headers, member)) > 0 {
		why = append(why, fmt.Sprintf("a header called %s is not read", member))
	}
	if len(why) == 0 {
		return fmt.Sprintf("it has neither %s nor another header that is read for one", strings.Join(memberHeaders[:], " nor "))
	}
	return strings.Join(why, "; ")
}
