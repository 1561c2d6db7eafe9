package noise

import (
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"switchyard.dev/workflows/comparison/structure"
)

// properties are tested in this order where values vary.
var properties = []struct {
	name string
	of   func(*structure.Value) string
}{
	{"format", func(v *structure.Value) string { return ofText(v, format) }},
	{"punctuation", func(v *structure.Value) string { return ofText(v, punctuation) }},
	{"capitals", func(v *structure.Value) string { return ofText(v, has("capital letters", unicode.IsUpper)) }},
	{"small letters", func(v *structure.Value) string { return ofText(v, has("small letters", unicode.IsLower)) }},
	{"digits", func(v *structure.Value) string { return ofText(v, has("digits", unicode.IsDigit)) }},
	{"precision", precision},
}

// ofText is a property of texts; other values have none.
func ofText(v *structure.Value, property func(string) string) string {
	if v == nil || v.Kind != structure.Text {
		return ""
	}
	return property(v.Text)
}

var (
	uuid     = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`)
	integer  = regexp.MustCompile(`^[+-]?\d{1,18}$`)
	decimal  = regexp.MustCompile(`^[+-]?\d+\.\d+(?:[eE][+-]?\d+)?$`)
	counted  = regexp.MustCompile(`\b\d+\b`)
	layouts  = []string{time.RFC3339Nano, time.RFC1123, time.RFC1123Z, time.RFC850, time.ANSIC, time.UnixDate, time.DateTime, time.DateOnly, time.TimeOnly, "2006-01-02T15:04:05", "2006-01-02T15:04:05Z0700"}
	timeText = regexp.MustCompile(`\d[-:]\d\d|, \d\d|\d \d\d\d\d$`)
)

// format is a well-known format of a text; empty if it has none.
func format(text string) string {
	switch {
	case text == "":
		return "empty"
	case integer.MatchString(text):
		return "integer"
	case decimal.MatchString(text):
		return "decimal"
	case uuid.MatchString(text):
		return "UUID"
	}
	if layout, _ := moment(text); layout != "" {
		return "time as " + layout
	}
	return ""
}

// moment returns the layout and the time of a text; empty if it is none.
func moment(text string) (layout string, at time.Time) {
	if len(text) < 8 || len(text) > 40 || !timeText.MatchString(text) {
		return "", at
	}
	for _, layout := range layouts {
		if at, err := time.Parse(layout, text); err == nil {
			return layout, at
		}
	}
	return "", at
}

// sentence is the property of all texts with spaces: their characters depend on the language.
const sentence = "a sentence"

// punctuation is what remains of a text without letters and digits; numbers have none.
func punctuation(text string) string {
	if f := format(text); f == "integer" || f == "decimal" {
		return ""
	}
	if strings.Contains(text, " ") {
		return sentence
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return -1
		}
		return r
	}, text)
}

func has(what string, class func(rune) bool) func(string) string {
	return func(text string) string {
		if strings.Contains(text, " ") {
			return sentence
		}
		if strings.ContainsFunc(text, class) {
			return what
		}
		return "no " + what
	}
}

// longToken is the least length of a text of random characters.
const longToken = 16

// length is that of long texts without spaces.
func length(v *structure.Value) string {
	return ofText(v, func(text string) string {
		if len(text) < longToken || strings.ContainsAny(text, " \t\n") || strings.HasPrefix(format(text), "time") {
			return ""
		}
		return strconv.Itoa(len(text)) + " characters"
	})
}

// unnumbered is the length without the numbers in a text, which can grow.
func unnumbered(v *structure.Value) string {
	return ofText(v, func(text string) string { return strconv.Itoa(len(counted.ReplaceAllString(text, ""))) })
}

// precision is whether a number is whole.
func precision(v *structure.Value) string {
	x, is := numeric(v)
	switch {
	case !is:
		return ""
	case x == float64(int64(x)):
		return "whole"
	}
	return "with a fraction"
}

// isRandom reports whether a text is long, of letters and digits: an identifier, a hash or a token.
func isRandom(text string) bool {
	return len(text) >= longToken && !strings.ContainsAny(text, " /\t\n") && strings.ContainsFunc(text, unicode.IsDigit) &&
		strings.ContainsFunc(text, unicode.IsLetter) && !strings.HasPrefix(format(text), "time")
}

// volatile reports whether a value is of a format that differs in nearly each run.
func volatile(v *structure.Value) bool {
	return v != nil && v.Kind == structure.Text && (isRandom(v.Text) || strings.HasPrefix(format(v.Text), "time") && len(v.Text) > len(time.DateOnly))
}
