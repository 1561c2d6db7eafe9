package corpus

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var placeholder = regexp.MustCompile(`\{(hex|HEX|digits|base64|letters|int|time|unixms|unix|same)(?::([^}]*))?\}`)

// alphabets are the characters of placeholders of a fixed length.
var alphabets = map[string]string{
	"hex": "0123456789abcdef", "HEX": "0123456789ABCDEF", "digits": "0123456789",
	"base64":  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
	"letters": "abcdefghijklmnopqrstuvwxyz", "same": "abcdefghijklmnopqrstuvwxyz",
}

func letters(r *rand.Rand, alphabet string, n int) string {
	text := make([]byte, n)
	for i := range text {
		text[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(text)
}

// fixed replaces {same:N}, once for each place.
func fixed(r *rand.Rand, template string) string {
	return placeholder.ReplaceAllStringFunc(template, func(p string) string {
		if kind, size := parts(p); kind == "same" {
			n, _ := strconv.Atoi(size)
			return letters(r, alphabets[kind], n)
		}
		return p
	})
}

func parts(p string) (kind, argument string) {
	m := placeholder.FindStringSubmatch(p)
	return m[1], m[2]
}

// fill returns a text of a template.
func fill(r *rand.Rand, now time.Time, template string) string {
	return placeholder.ReplaceAllStringFunc(template, func(p string) string {
		kind, argument := parts(p)
		switch kind {
		case "int":
			low, high := bounds(argument)
			return strconv.Itoa(low + r.IntN(high-low+1))
		case "time":
			return now.UTC().Format(argument)
		case "unix":
			return strconv.FormatInt(now.Unix(), 10)
		case "unixms":
			return strconv.FormatInt(now.UnixMilli(), 10)
		}
		n, _ := strconv.Atoi(argument)
		return letters(r, alphabets[kind], n)
	})
}

func bounds(argument string) (low, high int) {
	a, b, _ := strings.Cut(argument, "-")
	low, _ = strconv.Atoi(a)
	high, _ = strconv.Atoi(b)
	return low, max(low, high)
}

var digitsOrLetters = regexp.MustCompile(`\d+|[A-Za-z]+`)

// pattern returns an expression of all texts that a template can produce.
func pattern(template string) (*regexp.Regexp, error) {
	var expression strings.Builder
	rest := template
	for {
		at := placeholder.FindStringIndex(rest)
		if at == nil {
			break
		}
		expression.WriteString(regexp.QuoteMeta(rest[:at[0]]))
		expression.WriteString(patternOf(parts(rest[at[0]:at[1]])))
		rest = rest[at[1]:]
	}
	expression.WriteString(regexp.QuoteMeta(rest))
	compiled, err := regexp.Compile("^" + expression.String() + "$")
	if err != nil {
		return nil, fmt.Errorf("template %q: %w", template, err)
	}
	return compiled, nil
}

func patternOf(kind, argument string) string {
	switch kind {
	case "int", "unix", "unixms":
		return `\d+`
	case "time":
		return digitsOrLetters.ReplaceAllStringFunc(regexp.QuoteMeta(argument), func(part string) string {
			if part[0] <= '9' {
				return `\d+`
			}
			return `[A-Za-z]+`
		})
	}
	return "[" + alphabets[kind] + "]{" + argument + "}"
}
