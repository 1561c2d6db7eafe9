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

var errDeep = errors.New("the JSON is nested too deeply")

// state is a step of a path that has to select next.
type state struct{ path, step int }

// walker copies JSON without the selected values.
type walker struct {
	rules *Rules
	// in is the body, which from reads; the first copied bytes of it are in out.
	in     []byte
	from   *json.Decoder
	copied int
	out    []byte
	found  []bool // by path
}

// rewrite returns a body of JSON values in which the selected values are null, and the texts of the paths that selected some.
// It is not ok if the body consists of other things.
func (r *Rules) rewrite(body []byte) (out []byte, found []string, ok bool) {
	begin := make([]state, len(r.paths))
	for i := range begin {
		begin[i].path = i
	}
	// The byte order mark, and the separators of JSON text sequences (RFC 7464), are no JSON.
	plain := bytes.ReplaceAll(body, []byte{0x1e}, []byte{' '})
	if bytes.HasPrefix(plain, bom) {
		copy(plain, "   ")
	}
	w := &walker{rules: r, in: body, from: json.NewDecoder(bytes.NewReader(plain)), found: make([]bool, len(r.paths))}
	w.from.UseNumber()
	for {
		if err := w.value(begin, 0); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, nil, false
		}
	}
	for i, is := range w.found {
		if is {
			found = append(found, r.paths[i].text)
		}
	}
	return append(w.out, body[w.copied:]...), found, true
}

// value reads a value with the states that apply to its members and elements.
func (w *walker) value(states []state, depth int) error {
	if len(states) == 0 {
		_, err := w.skip()
		return err
	}
	if depth > maxDepth {
		return errDeep
	}
	token, err := w.from.Token()
	if err != nil {
		return err
	}
	list := token == json.Delim('[')
	if !list && token != json.Delim('{') {
		return nil
	}
	for i := 0; w.from.More(); i++ {
		selects := func(s step) bool { return s.element(i) }
		if !list {
			name, err := w.from.Token()
			if err != nil {
				return whole(err)
			}
			selects = func(s step) bool { return s.member(name.(string)) }
		}
		if below := w.next(states, selects); below != nil {
			err = w.value(below, depth+1)
		} else {
			err = w.remove()
		}
		if err != nil {
			return whole(err)
		}
	}
	_, err = w.from.Token()
	return whole(err)
}

// whole returns an error within a value: there its input must not end.
func whole(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// skip reads a value, and returns its length.
func (w *walker) skip() (int, error) {
	var value json.RawMessage
	err := w.from.Decode(&value)
	return len(value), err
}

// remove reads a value, and writes null in its place.
func (w *walker) remove() error {
	n, err := w.skip()
	end := int(w.from.InputOffset())
	w.out = append(append(w.out, w.in[w.copied:max(w.copied, end-n)]...), "null"...)
	w.copied = end
	return err
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
