package unit

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"

	"switchyard.dev/workflows/iocontext"
)

// window is the part of the output that can appear in its tail, before values are replaced by
// names. To find values that begin before it, room for the largest is kept too.
const (
	window = 4 * iocontext.MaxTail
	kept   = window + iocontext.MaxValue
	// maxPieces bounds the number of pieces.
	maxPieces = 2 * window
)

// tail keeps the end of what a script prints on two streams. A value that is printed in several
// writes is found also when writes to the other stream come between.
type tail struct {
	mu      sync.Mutex
	streams [2]stream
	// pieces are the last writes, in order.
	pieces []piece
}

// stream is the end of the output on one stream; begun is the number of bytes before it.
type stream struct {
	content []byte
	begun   int
}

// piece is a part of a stream, by offsets.
type piece struct{ stream, from, to int }

// write adds bytes that were written to a stream.
func (t *tail) write(to int, p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.streams[to]
	from := s.begun + len(s.content)
	s.content = append(s.content, p...)
	if over := len(s.content) - kept; over > kept/4 {
		s.content = append(s.content[:0], s.content[over:]...)
		s.begun += over
	}
	if n := len(t.pieces); n > 0 && t.pieces[n-1].stream == to {
		t.pieces[n-1].to = from + len(p)
		return
	}
	t.pieces = append(t.pieces, piece{to, from, from + len(p)})
	if over := len(t.pieces) - maxPieces; over > maxPieces/4 {
		t.pieces = append(t.pieces[:0], t.pieces[over:]...)
	}
}

// value is a value to hide, with the name that replaces it.
type value struct {
	name    string
	content []byte
}

// text returns the end of the output, with names instead of values, at most MaxTail bytes
// of it.
func (t *tail) text(values []value) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	patterns := patternsOf(values)
	var hidden [2][]span
	var first [2]int // the first offset to show
	for i := range t.streams {
		s := &t.streams[i]
		first[i] = max(s.begun, s.begun+len(s.content)-window)
		hidden[i] = s.find(patterns, first[i])
	}
	var out strings.Builder
	for _, p := range t.pieces {
		s, spans := &t.streams[p.stream], hidden[p.stream]
		for at := max(p.from, first[p.stream]); at < p.to; {
			i, _ := slices.BinarySearchFunc(spans, at, func(h span, at int) int { return cmp.Compare(h.to, at+1) })
			if i == len(spans) || spans[i].from >= p.to {
				out.Write(s.content[at-s.begun : p.to-s.begun])
				break
			}
			if h := &spans[i]; h.from > at {
				out.Write(s.content[at-s.begun : h.from-s.begun])
				at = h.from
				continue
			}
			out.WriteString(spans[i].names)
			spans[i].names = "" // it may go on in another piece
			at = spans[i].to
		}
	}
	return iocontext.Last(uncoloured(out.String(), patterns), iocontext.MaxTail)
}

// controls matches the sequences for colors and cursor movement on terminals (ECMA-48).
var controls = regexp.MustCompile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[ -/]+[0-~]|[0-Z\\\\^_`-~])")

// uncoloured returns a text without such sequences. A value that one of them splits is replaced
// by its name.
func uncoloured(text string, values []value) string {
	plain := controls.ReplaceAllString(text, "")
	if plain == text {
		return text
	}
	for _, v := range values {
		plain = strings.ReplaceAll(plain, string(v.content), "<"+v.name+">")
	}
	return plain
}

// span is a part of a stream that is hidden.
type span struct {
	from, to int
	names    string
}

// find returns the parts of a stream with values that end after an offset, in order; adjacent
// ones are merged.
func (s *stream) find(patterns []value, behind int) []span {
	var all []span
	for _, p := range patterns {
		// A value that begins so far before the offset is not in the text any more.
		from := max(0, behind-s.begun-len(p.content)+1)
		for _, o := range occurrences(s.content[min(from, len(s.content)):], p.content) {
			all = append(all, span{s.begun + from + o.from, s.begun + from + o.to, "<" + p.name + ">"})
		}
	}
	// Of those that begin together the longest comes first.
	slices.SortStableFunc(all, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
	var merged []span
	for _, one := range all {
		last := len(merged) - 1
		switch {
		case last < 0 || one.from >= merged[last].to:
			merged = append(merged, one)
		case one.to > merged[last].to:
			merged[last].to = one.to
			if !strings.HasSuffix(merged[last].names, one.names) {
				merged[last].names += one.names
			}
		}
	}
	return merged
}

// occurrences returns the parts of a text that match a pattern; overlapping ones are merged. It
// is linear in the text (Knuth, Morris and Pratt).
func occurrences(text, pattern []byte) (all []span) {
	if !bytes.Contains(text, pattern) {
		return nil
	}
	// border[i] is the length of the longest proper prefix of pattern[:i+1] that is its suffix
	// too.
	border := make([]int32, len(pattern))
	step := func(n int32, b byte) int32 {
		for n > 0 && (int(n) == len(pattern) || pattern[n] != b) {
			n = border[n-1]
		}
		if pattern[n] == b {
			n++
		}
		return n
	}
	for i, n := 1, int32(0); i < len(pattern); i++ {
		n = step(n, pattern[i])
		border[i] = n
	}
	n := int32(0)
	for i, b := range text {
		if n = step(n, b); int(n) < len(pattern) {
			continue
		}
		from, last := i+1-len(pattern), len(all)-1
		if last >= 0 && from < all[last].to {
			all[last].to = i + 1
			continue
		}
		all = append(all, span{from: from, to: i + 1})
	}
	return all
}

// minLine is the minimum length of a line of a value to be hidden by itself.
const minLine = 8

// patternsOf returns the patterns to hide: the values, the longest first, and their parts where a
// script prints them without the surrounding space, or line by line.
func patternsOf(values []value) []value {
	var all []value
	add := func(name string, content []byte) {
		if len(content) > 0 {
			all = append(all, value{name, content})
		}
	}
	for _, v := range values {
		add(v.name, v.content)
		trimmed := bytes.TrimSpace(v.content)
		if len(trimmed) != len(v.content) {
			add(v.name, trimmed)
		}
		if bytes.IndexByte(trimmed, '\n') < 0 {
			continue
		}
		for line := range bytes.Lines(trimmed) {
			if line = bytes.TrimSpace(line); len(line) >= minLine {
				add(v.name, line)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b value) int { return cmp.Compare(len(b.content), len(a.content)) })
	return all
}
