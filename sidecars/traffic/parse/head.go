package parse

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
)

// readRequest parses the lines of a request.
func readRequest(block string) (Head, error) {
	line, rest, _ := strings.Cut(block, "\n")
	method, target, version := splitRequest(strings.TrimRight(line, "\r"))
	if method == "" {
		return Head{}, errOther
	}
	h := Head{Protocol: version, Method: method, Target: target}
	var err error
	h.Fields, err = readFields(rest)
	h.Authority = Value(h.Fields, "host")
	return h, err
}

// splitRequest returns the parts of a request line; empty ones for any other line.
func splitRequest(line string) (method, target, version string) {
	method, rest, _ := strings.Cut(line, " ")
	i := strings.LastIndexByte(rest, ' ')
	if i < 0 || len(method) == 0 || len(method) > maxMethod || !token(method) {
		return "", "", ""
	}
	target, version = strings.TrimSpace(rest[:i]), rest[i+1:]
	if !strings.HasPrefix(version, "HTTP/1.") || target == "" {
		return "", "", ""
	}
	return method, target, version
}

func token(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"(),/:;<=>?@[\\]{}", c) >= 0 {
			return false
		}
	}
	return true
}

// readResponse parses the lines of a response.
func readResponse(block string) (Head, error) {
	line, rest, _ := strings.Cut(block, "\n")
	version, status, _ := strings.Cut(line, " ")
	if !strings.HasPrefix(version, "HTTP/1.") || len(status) < 3 {
		return Head{}, errors.New("a response has no status line")
	}
	code, err := strconv.Atoi(status[:3])
	if err != nil {
		return Head{}, errors.New("a status line has no status")
	}
	h := Head{Protocol: version, Status: code}
	h.Fields, err = readFields(rest)
	return h, err
}

// readFields parses header lines. A folded line belongs to the one before it.
func readFields(lines string) ([]Field, error) {
	fields := make([]Field, 0, strings.Count(lines, "\n"))
	for line := range strings.Lines(lines) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			break
		}
		if line[0] == ' ' || line[0] == '\t' {
			if n := len(fields); n > 0 {
				fields[n-1].Value += " " + strings.Trim(line, " \t")
				continue
			}
		}
		name, value, found := strings.Cut(line, ":")
		if !found || name == "" {
			return nil, errors.New("a header line has no name")
		}
		fields = append(fields, Field{strings.TrimRight(name, " \t"), strings.Trim(value, " \t")})
	}
	return fields, nil
}

// Value returns the first value of a header. The name is in lower case.
func Value(fields []Field, name string) string {
	for _, f := range fields {
		if len(f.Name) == len(name) && strings.EqualFold(f.Name, name) {
			return f.Value
		}
	}
	return ""
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// lengthOf returns the least length of the body after a head.
func lengthOf(head []byte) (length uint64) {
	for line := range bytes.Lines(head) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		name = bytes.TrimRight(name, " \t")
		switch {
		case len(name) == len("transfer-encoding") && strings.EqualFold(string(name), "transfer-encoding"):
			return 0
		case len(name) == len("content-length") && strings.EqualFold(string(name), "content-length"):
			length, _ = strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 63)
		}
	}
	return length
}

// framing returns how a body ends: chunked, or after so many bytes; -1 if neither is stated.
func framing(fields []Field) (chunked bool, length int64, err error) {
	length = -1
	for _, f := range fields {
		switch {
		case len(f.Name) == len("transfer-encoding") && strings.EqualFold(f.Name, "transfer-encoding"):
			last := f.Value[strings.LastIndexByte(f.Value, ',')+1:]
			if chunked = strings.EqualFold(strings.TrimSpace(last), "chunked"); !chunked {
				return false, 0, errors.New("the last transfer encoding is not chunked")
			}
		case len(f.Name) == len("content-length") && strings.EqualFold(f.Name, "content-length"):
			n, err := strconv.ParseUint(f.Value, 10, 63)
			if err != nil || length >= 0 && int64(n) != length {
				return false, 0, errors.New("Content-Length is not one number")
			}
			length = int64(n)
		}
	}
	return chunked, length, nil
}
