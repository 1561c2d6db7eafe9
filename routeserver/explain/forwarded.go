package explain

import (
	"fmt"
	"strings"
)

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
