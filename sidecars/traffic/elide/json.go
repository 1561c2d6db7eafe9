package elide

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
)

// maxDepth bounds the nesting of JSON.
const maxDepth = 1000

// state is a step of a path that has to select next.
type state struct{ path, step int }

// walker copies JSON without the selected values.
type walker struct {
	rules *Rules
	// in is valid JSON of which the first at bytes are read, and those before copied are in out.
	in         []byte
	at, copied int
	out        []byte
	found      []bool // by path
	deep       bool
}

// rewrite returns a body of JSON values in which the selected values are null, and the texts of the paths that selected some.
// It is not ok if the body consists of other things.
func (r *Rules) rewrite(body []byte) (out []byte, found []string, ok bool) {
	begin := make([]state, len(r.paths))
	for i := range begin {
		begin[i].path = i
	}
	w := &walker{rules: r, in: body, found: make([]bool, len(r.paths))}
	// The byte order mark, and the separators of JSON text sequences (RFC 7464), are no JSON.
	plain := bytes.ReplaceAll(body, []byte{0x1e}, []byte{' '})
	if bytes.HasPrefix(plain, bom) {
		copy(plain, "   ")
	}
	values := json.NewDecoder(bytes.NewReader(plain))
	for {
		var value json.RawMessage
		if err := values.Decode(&value); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, nil, false
		}
		w.at = int(values.InputOffset()) - len(value)
		w.value(begin, 0)
	}
	if w.deep {
		return nil, nil, false
	}
	for i, is := range w.found {
		if is {
			found = append(found, r.paths[i].text)
		}
	}
	return append(w.out, body[w.copied:]...), found, true
}

// value reads a value with the states that apply to its members and elements.
func (w *walker) value(states []state, depth int) {
	switch {
	case len(states) == 0:
		w.skip()
	case depth > maxDepth:
		w.deep = true
		w.skip()
	case w.in[w.at] == '{':
		w.children('}', depth, func() []state {
			begin := w.at
			w.skip()
			var name string
			_ = json.Unmarshal(w.in[begin:w.at], &name) // the body is valid
			w.blank()
			w.at++ // the colon
			return w.next(states, func(s step) bool { return s.member(name) })
		})
	case w.in[w.at] == '[':
		i := -1
		w.children(']', depth, func() []state {
			i++
			return w.next(states, func(s step) bool { return s.element(i) })
		})
	default:
		w.skip()
	}
}

// children reads an object or an array. key reads the part before a value, and returns the states for the value; nil: it is removed.
func (w *walker) children(end byte, depth int, key func() []state) {
	w.at++
	for {
		if w.blank(); w.in[w.at] == end {
			w.at++
			return
		}
		if w.in[w.at] == ',' {
			w.at++
			w.blank()
		}
		states := key()
		if w.blank(); states != nil {
			w.value(states, depth+1)
			continue
		}
		w.out = append(append(w.out, w.in[w.copied:w.at]...), "null"...)
		w.skip()
		w.copied = w.at
	}
}

// next returns the states below a child, nil if a path ends there.
func (w *walker) next(states []state, selects func(step) bool) []state {
	below, removed := make([]state, 0, len(states)), false
	add := func(s state) {
		if !slices.Contains(below, s) {
			below = append(below, s)
		}
	}
	for _, s := range states {
		steps := w.rules.paths[s.path].steps
		if steps[s.step].deep {
			add(s)
		}
		if !selects(steps[s.step]) {
			continue
		}
		if s.step+1 == len(steps) {
			w.found[s.path], removed = true, true
			continue
		}
		add(state{s.path, s.step + 1})
	}
	if removed {
		return nil
	}
	return below
}

// blank reads the space between tokens.
func (w *walker) blank() {
	for bytes.IndexByte([]byte(" \t\r\n\x1e"), w.in[w.at]) >= 0 {
		w.at++
	}
}

// skip reads one value.
func (w *walker) skip() {
	for depth := 0; ; {
		switch w.in[w.at] {
		case '{', '[':
			depth++
			w.at++
		case '}', ']':
			depth--
			w.at++
		case '"':
			for w.at++; w.in[w.at] != '"'; w.at++ {
				if w.in[w.at] == '\\' {
					w.at++
				}
			}
			w.at++
		default:
			w.at++
			if depth == 0 {
				for w.at < len(w.in) && bytes.IndexByte([]byte(" \t\r\n\x1e,]}"), w.in[w.at]) < 0 {
					w.at++
				}
			}
		}
		if depth == 0 {
			return
		}
	}
}
