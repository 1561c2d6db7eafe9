package wire

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// errOdd is an answer that is none.
var errOdd = errors.New("no HTTP")

// head reads a status line and header lines, and describes them.
func (r *reader) head() (int, http.Header, error) {
	line, err := r.in.ReadString('\n')
	if err != nil && line != "" {
		return 0, nil, fmt.Errorf("%w: %q", errOdd, brief(line))
	}
	if err != nil {
		return 0, nil, err
	}
	version, rest, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
	code, phrase, _ := strings.Cut(rest, " ")
	status, err := strconv.Atoi(code)
	if err != nil || !strings.HasPrefix(version, "HTTP/") {
		return 0, nil, fmt.Errorf("%w: %q", errOdd, brief(line))
	}
	first := version + " " + code
	if r.reason {
		first += " " + phrase
	}
	if r.h1.status {
		first = code
	}
	r.say("%s", first)
	lines, header, err := r.lines()
	if err == nil && !r.h1.status {
		if !r.exact {
			slices.Sort(lines)
		}
		r.said = append(r.said, lines...)
	}
	return status, header, err
}

// lines reads header lines, without the date.
func (r *reader) lines() ([]string, http.Header, error) {
	var all []string
	header, size := http.Header{}, 0
	for {
		line, err := r.in.ReadString('\n')
		if err != nil {
			return nil, nil, err
		}
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			return briefly(all, size), header, nil
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		header.Add(name, value)
		if strings.EqualFold(name, "date") {
			continue
		}
		if !r.exact {
			name = strings.ToLower(name)
		}
		size += len(line)
		all = append(all, "  "+name+": "+brief(value))
	}
}

// briefly returns how many lines there are, where that is what matters.
func briefly(lines []string, size int) []string {
	if len(lines) > 100 {
		return []string{fmt.Sprintf("  %d lines of %d bytes", len(lines), size)}
	}
	return lines
}

// body reads the body of an answer, and reports whether the connection may go on.
func (r *reader) body(status int, header http.Header) bool {
	if r.method == http.MethodHead || status == http.StatusNoContent || status == http.StatusNotModified {
		return true
	}
	chunked := strings.Contains(strings.ToLower(strings.Join(header.Values("Transfer-Encoding"), ",")), "chunked")
	length, lengthErr := strconv.ParseInt(header.Get("Content-Length"), 10, 64)
	var content []byte
	var trailers []string
	var err error
	open := true
	switch {
	case chunked:
		if content, err = io.ReadAll(httputil.NewChunkedReader(r.in)); err == nil {
			trailers, _, err = r.lines()
		}
	case lengthErr == nil && length >= 0:
		content, err = io.ReadAll(io.LimitReader(r.in, length))
		if err == nil && int64(len(content)) < length {
			err = io.ErrUnexpectedEOF
		}
	default:
		// How a connection ends makes no difference.
		if content, err = io.ReadAll(r.in); errors.Is(err, syscall.ECONNRESET) {
			err = nil
		}
		open = false
	}
	if !r.h1.status {
		r.say("%q", brief(string(content)))
		r.said = append(r.said, trailers...)
	}
	if err != nil {
		r.say("cut off: %s", ending(err))
		return false
	}
	if !open {
		r.say("then\nclosed")
	}
	return open
}

// brief is a text, or its length and hash when it is long.
func brief(text string) string {
	const long = 600
	if len(text) <= long {
		return text
	}
	return fmt.Sprintf("%d bytes, %x", len(text), sha256.Sum256([]byte(text)))[:40]
}
