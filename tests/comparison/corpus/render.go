package corpus

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// object is a JSON object, in the order of its members.
type object struct {
	names  []string
	values []any
}

// rendering makes one answer; hidden has the units with a fault that the noise's own span hides in it.
type rendering struct {
	r      *rand.Rand
	at     moment
	fork   bool
	hidden map[*shape]bool
	seen   map[*shape]bool // faults that this answer shows
}

func (g *rendering) value(n *node) any {
	s := n.of
	value := g.plain(n)
	c := s.change
	if !g.fork || c == nil || c.fault.Swap || c.only != nil && c.only != n {
		return value
	}
	changed := c.apply(value)
	g.judge(n, value, changed)
	return changed
}

// judge records whether noise could have made a changed value.
func (g *rendering) judge(n *node, value, changed any) {
	s, inside := n.of, false
	list, isList := changed.([]any)
	switch {
	case s.source != nil:
		inside = s.source.within(changed)
	case s.kind == "list" && isList && s.noise != nil:
		lengths := s.noise.List.Lengths
		inside = lengths[1] > 0 && len(list) >= lengths[0] && len(list) <= lengths[1] || s.change.fault.Reverse
	case s.kind != "list" && s.kind != "map":
		inside = same(value, changed)
	}
	if !inside {
		g.seen[s] = true
	}
	g.hidden[s] = !g.seen[s]
}

func (g *rendering) plain(n *node) any {
	s := n.of
	switch {
	case s.kind == "list":
		return g.list(n)
	case s.kind == "map" && s.element != nil:
		o, entries := object{}, s.noise.Map.Entries
		for range count(g.r, entries) {
			o.names = append(o.names, fill(g.r, g.at.time, s.noise.Map.Keys))
			o.values = append(o.values, g.value(n.elements[0]))
		}
		return o
	case s.kind == "map":
		return g.object(n)
	case s.source != nil:
		return s.source.draw(g.r, g.at)
	}
	return n.value
}

func (g *rendering) list(n *node) any {
	list, order, noise := []any{}, g.r.Perm(len(n.elements)), n.of.noise
	for i := range n.elements {
		at := i
		if noise != nil && (noise.List.Shuffle || noise.List.Lengths[1] > 0) {
			at = order[i]
		}
		list = append(list, g.value(n.elements[at]))
	}
	if noise != nil && noise.List.Lengths[1] > 0 {
		list = list[:count(g.r, noise.List.Lengths)]
	}
	return list
}

func (g *rendering) object(n *node) object {
	values := make([]any, len(n.members))
	for i, m := range n.members {
		values[i] = g.value(m)
	}
	for i, m := range n.members {
		c := m.of.change
		if !g.fork || c == nil || !c.fault.Swap {
			continue
		}
		for j, other := range n.members {
			if other.of == c.partner && i < j {
				values[i], values[j] = values[j], values[i]
				g.judge(m, values[j], values[i])
				g.judge(other, values[i], values[j])
			}
		}
	}
	order := g.r.Perm(len(values))
	if noise := n.of.noise; noise == nil || !noise.Map.Shuffle {
		for i := range order {
			order[i] = i
		}
	}
	o := object{}
	for _, i := range order {
		if _, missing := values[i].(absent); !missing {
			o.names = append(o.names, n.members[i].of.name)
			o.values = append(o.values, values[i])
		}
	}
	return o
}

func write(to *bytes.Buffer, value any) {
	switch v := value.(type) {
	case object:
		separator := byte('{')
		for i, name := range v.names {
			to.WriteByte(separator)
			fmt.Fprintf(to, "%q:", name)
			write(to, v.values[i])
			separator = ','
		}
		if separator == '{' {
			to.WriteByte('{')
		}
		to.WriteByte('}')
	case []any:
		to.WriteByte('[')
		for i, element := range v {
			if i > 0 {
				to.WriteByte(',')
			}
			write(to, element)
		}
		to.WriteByte(']')
	default:
		text, err := json.Marshal(v)
		if err != nil {
			text = []byte(strconv.Quote(err.Error()))
		}
		to.Write(text)
	}
}

// compress returns the body as it is sent with a content encoding.
func compress(plain []byte, encoding string) []byte {
	var to bytes.Buffer
	switch encoding {
	case "gzip":
		w := gzip.NewWriter(&to)
		_, _ = w.Write(plain)
		_ = w.Close()
	case "br":
		w := brotli.NewWriterLevel(&to, 1)
		_, _ = w.Write(plain)
		_ = w.Close()
	case "zstd":
		return zstdWriter.EncodeAll(plain, nil)
	default:
		return plain
	}
	return to.Bytes()
}

var zstdWriter, _ = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
