package keeper_test

import (
	"bytes"
	"cmp"
	"errors"
	"net/textproto"
	"regexp"
	"strconv"
	"strings"

	"switchyard.dev/xds/routingkey"
	"switchyard.dev/xds/routingkey/keytest"
)

// dialect is a way to read HTTP/1. What the proxy sends must mean the same in
// each.
type dialect struct {
	name string
	// lenient: any line end, folded lines, blanks anywhere, numbers that only
	// begin as such, codings that only contain the word.
	lenient bool
	// lengthFirst: a Content-Length goes before a Transfer-Encoding.
	lengthFirst bool
}

func dialects() []dialect {
	return []dialect{{name: "strict"}, {"lenient, length first", true, true}, {"lenient, chunks first", true, false}}
}

// seen is a request as a backend understood it.
type seen struct {
	Method, Target string
	Header         map[string][]string
	Body           string
}

// key is the request's routing key.
func (s seen) key() string {
	return routingkey.Of(func(name string) []string { return s.Header[textproto.CanonicalMIMEHeaderKey(name)] }, keytest.CustomHeaders())
}

var (
	// errMore: the request has not ended yet.
	errMore = errors.New("more is needed")
	errBad  = errors.New("not HTTP")
)

// read returns the first request of a stream and its length in bytes. With errMore, the part
// read so far is returned; Target is set when the headers have ended.
func (d dialect) read(stream []byte) (seen, int, error) {
	c := &cursor{d, stream, 0}
	line := ""
	for line == "" { // empty lines before a request are passed over
		next, err := c.line()
		if err != nil {
			return seen{}, 0, err
		}
		line = next
	}
	words := strings.Split(line, " ")
	if d.lenient {
		words = strings.Fields(line)
	}
	if len(words) < 3 || !d.lenient && (len(words) != 3 || !strings.HasPrefix(words[2], "HTTP/1.")) || !strings.Contains(strings.ToUpper(line), "HTTP/") {
		return seen{}, 0, errBad
	}
	s := seen{Method: words[0]}
	var err error
	if s.Header, err = c.header(); err != nil {
		return s, 0, err
	}
	s.Target = words[1]
	s.Body, err = c.body(s.Header)
	return s, c.at, err
}

// cursor reads a stream in a dialect.
type cursor struct {
	dialect
	stream []byte
	at     int
}

// line reads a line and gives it without its end.
func (c *cursor) line() (string, error) {
	rest := c.stream[c.at:]
	if !c.lenient {
		line, _, ended := bytes.Cut(rest, []byte("\r\n"))
		if bytes.ContainsAny(line, "\n\x00") || bytes.ContainsRune(line[:max(len(line)-1, 0)], '\r') || ended && bytes.HasSuffix(line, []byte("\r")) {
			return "", errBad
		}
		if !ended {
			return "", errMore
		}
		c.at += len(line) + 2
		return string(line), nil
	}
	i := bytes.IndexAny(rest, "\r\n")
	if i < 0 || rest[i] == '\r' && i+1 == len(rest) {
		return "", errMore
	}
	c.at += i + 1
	if rest[i] == '\r' && rest[i+1] == '\n' {
		c.at++
	}
	return string(rest[:i]), nil
}

var token = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// header reads lines up to an empty one.
func (c *cursor) header() (map[string][]string, error) {
	all, last := map[string][]string{}, ""
	for {
		line, err := c.line()
		if err != nil || line == "" {
			return all, err
		}
		if line[0] == ' ' || line[0] == '\t' {
			if !c.lenient {
				return nil, errBad
			}
			if values := all[last]; len(values) > 0 {
				values[len(values)-1] += " " + strings.TrimSpace(line)
			}
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if c.lenient {
			name = strings.TrimSpace(name)
		} else if !ok || !token.MatchString(name) {
			return nil, errBad
		}
		last = textproto.CanonicalMIMEHeaderKey(name)
		all[last] = append(all[last], strings.TrimSpace(value))
	}
}

// body reads what the headers announce.
func (c *cursor) body(header map[string][]string) (string, error) {
	lengths, codings := header["Content-Length"], strings.ToLower(strings.Join(header["Transfer-Encoding"], ","))
	chunked := codings == "chunked" || c.lenient && strings.Contains(codings, "chunked")
	switch {
	case !c.lenient && (codings != "" && (!chunked || len(lengths) > 0) || len(lengths) > 1):
		return "", errBad
	case chunked && (len(lengths) == 0 || !c.lengthFirst):
		return c.chunks()
	case len(lengths) == 0:
		return "", nil
	}
	n, err := c.number(lengths[0], "0123456789", 10)
	if err != nil {
		return "", err
	}
	return c.take(n)
}

// number reads a number; a lenient one, what a text begins with.
func (c *cursor) number(text, digits string, base int) (int, error) {
	if c.lenient {
		text = strings.TrimLeft(text, " \t+")
		text = text[:len(text)-len(strings.TrimLeft(text, digits))]
	}
	n, err := strconv.ParseUint(text, base, 63)
	if err != nil {
		return 0, errBad
	}
	return int(n), nil
}

func (c *cursor) take(n int) (string, error) {
	if len(c.stream)-c.at < n {
		return "", errMore
	}
	c.at += n
	return string(c.stream[c.at-n : c.at]), nil
}

func (c *cursor) chunks() (string, error) {
	var body strings.Builder
	for {
		line, err := c.line()
		if err != nil {
			return "", err
		}
		size, _, _ := strings.Cut(line, ";")
		n, err := c.number(size, "0123456789abcdefABCDEF", 16)
		if err != nil {
			return "", err
		}
		if n == 0 {
			_, err := c.header() // trailers
			return body.String(), err
		}
		data, err := c.take(n)
		if err != nil {
			return "", err
		}
		body.WriteString(data)
		if line, err := c.line(); err != nil || line != "" {
			return "", cmp.Or(err, errBad)
		}
	}
}
