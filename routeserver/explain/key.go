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

// maxBaggage is the size in bytes above which common SDKs drop a whole baggage header.
const maxBaggage = 8192

// NotForwarded returns a sentence that states why applications may drop the routing key that a
// sidecar takes from the header of this name; "" if the headers follow the W3C standards.
func NotForwarded(headers []Header, from string) string {
	why := ""
	switch {
	case strings.EqualFold(from, "baggage"):
		why = notForwarded(strings.Join(Lines(headers, "baggage"), ","))
	case strings.EqualFold(from, "tracestate") && len(Lines(headers, "traceparent")) == 0:
		why = "tracestate is forwarded only together with traceparent"
	}
	if why == "" {
		return ""
	}
	return "Applications may not forward this routing key: " + why + "."
}

func notForwarded(baggage string) string {
	if len(baggage) > maxBaggage {
		return fmt.Sprintf("the baggage has %d bytes, and common SDKs drop a list of more than %d", len(baggage), maxBaggage)
	}
	for entry := range strings.SplitSeq(baggage, ",") {
		if entry = strings.TrimSpace(entry); entry != "" && !isEntry(entry) {
			return fmt.Sprintf("the entry %.40q of the baggage does not follow the W3C standard, and common SDKs then drop the whole list", entry)
		}
	}
	return ""
}

// isEntry reports whether a text is an entry of a baggage list: a token, and a value of ASCII without
// blanks, quotation marks and backslashes. Properties are not read.
func isEntry(text string) bool {
	text, _, _ = strings.Cut(text, ";")
	name, value, ok := strings.Cut(text, "=")
	name, value = strings.Trim(name, " \t"), strings.Trim(value, " \t")
	return ok && name != "" && !strings.ContainsFunc(name, notInToken) &&
		!strings.ContainsFunc(value, func(c rune) bool { return notVisible(c) || c == '"' || c == '\\' })
}

func notVisible(c rune) bool { return c <= ' ' || c > '~' }

func notInToken(c rune) bool { return notVisible(c) || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c) }
