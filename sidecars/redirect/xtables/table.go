package xtables

import (
	"bytes"
	"fmt"
	"slices"

	"switchyard.dev/eventbus/lists"
)

// Shape is the kernel's description of a table, before the entries.
type Shape struct {
	// Size is that of all entries, in bytes.
	Size uint32

	valid               uint32
	entries             uint32
	begins, underflowed [hooks]uint32
}

// AskShape returns a buffer for the answer to InfoOption, with the request in it.
func AskShape() []byte {
	room := make([]byte, ShapeSize)
	copy(room, TableName)
	return room
}

// AskEntries returns a buffer for the answer to EntriesOption, with the request in it.
func AskEntries(s Shape) []byte {
	room := make([]byte, EntriesHead+int(s.Size))
	copy(room, TableName)
	native.PutUint32(room[nameSize:], s.Size)
	return room
}

// ParseShape reads the kernel's answer to InfoOption.
func ParseShape(answer []byte) (Shape, error) {
	if len(answer) != ShapeSize {
		return Shape{}, fmt.Errorf("the kernel describes the table in %d bytes instead of %d", len(answer), ShapeSize)
	}
	numbers := func() uint32 {
		n := native.Uint32(answer[nameSize:])
		answer = answer[4:]
		return n
	}
	s := Shape{valid: numbers()}
	for i := range s.begins {
		s.begins[i] = numbers()
	}
	for i := range s.underflowed {
		s.underflowed[i] = numbers()
	}
	s.entries, s.Size = numbers(), numbers()
	return s, nil
}

// Table is a nat table. Make one with Parse.
type Table struct {
	family  Family
	valid   uint32
	entries []*entry
	// begins is the first entry of each of the kernel's chains, underflowed the
	// one that is its policy; nil for a hook that the table has not.
	begins, underflowed [hooks]*entry
}

// entry is one rule, or the mark of a chain's beginning.
type entry struct {
	// raw is the entry as the kernel has it, with its counters and notes cleared.
	raw []byte
	// to is where it jumps; nil when it does not.
	to *entry
}

// Parse reads the entries of a table of this shape. Bytes that make no table
// are an error.
func Parse(f Family, s Shape, raw []byte) (*Table, error) {
	t := &Table{family: f, valid: s.valid}
	at := map[int]*entry{}
	for offset := 0; offset < len(raw); {
		e, err := f.parse(raw[offset:])
		if err != nil {
			return nil, fmt.Errorf("%s entry at %d: %w", f.Name, offset, err)
		}
		at[offset] = e
		t.entries = append(t.entries, e)
		offset += len(e.raw)
	}
	if len(t.entries) != int(s.entries) || len(t.entries) == 0 || f.chain(t.entries[len(t.entries)-1]) != targetError {
		return nil, fmt.Errorf("%s table of %d entries, not the %d that the kernel counts, or without its end", f.Name, len(t.entries), s.entries)
	}
	for _, e := range t.entries {
		to, jumps := f.verdict(e)
		if !jumps {
			continue
		}
		if e.to = at[to]; e.to == nil {
			return nil, fmt.Errorf("%s entry that jumps to %d, where none begins", f.Name, to)
		}
	}
	for hook := range hooks {
		if s.valid&(1<<hook) == 0 {
			continue
		}
		t.begins[hook], t.underflowed[hook] = at[int(s.begins[hook])], at[int(s.underflowed[hook])]
		if t.begins[hook] == nil || t.underflowed[hook] == nil {
			return nil, fmt.Errorf("%s table: hook %d does not begin or end at an entry", f.Name, hook)
		}
	}
	if t.begins[prerouting] == nil {
		return nil, fmt.Errorf("%s table without PREROUTING", f.Name)
	}
	return t, nil
}

// parse reads the first entry, and checks that its parts are within it.
func (f Family) parse(raw []byte) (*entry, error) {
	if len(raw) < f.entry {
		return nil, fmt.Errorf("only %d bytes", len(raw))
	}
	target, next := int(native.Uint16(raw[f.offsets:])), int(native.Uint16(raw[f.offsets+2:]))
	if target < f.entry || target+headSize > next || next > len(raw) {
		return nil, fmt.Errorf("%d bytes, with a target at %d", next, target)
	}
	if size := int(native.Uint16(raw[target:])); size < headSize || target+size > next {
		return nil, fmt.Errorf("a target of %d bytes at %d of %d", size, target, next)
	}
	e := &entry{raw: bytes.Clone(raw[:next])}
	clear(e.raw[f.offsets+4 : f.offsets+8])     // where the kernel came from
	clear(e.raw[f.entry-CounterSize : f.entry]) // the counters of packets and bytes
	return e, nil
}

// target returns the name and the data of an entry's target.
func (f Family) target(e *entry) (name string, data []byte) {
	at := int(native.Uint16(e.raw[f.offsets:]))
	size := int(native.Uint16(e.raw[at:]))
	return text(e.raw[at+2 : at+2+maxName]), e.raw[at+headSize : at+size]
}

// verdict returns the offset that an entry jumps to.
func (f Family) verdict(e *entry) (to int, jumps bool) {
	name, data := f.target(e)
	if name != "" || len(data) < 4 {
		return 0, false
	}
	v := int32(native.Uint32(data))
	return int(v), v >= 0
}

// chain returns the name of the chain that an entry is the mark of, or nothing.
func (f Family) chain(e *entry) string {
	name, data := f.target(e)
	if name != targetError || len(data) < 30 {
		return ""
	}
	return text(data[:30])
}

func text(field []byte) string {
	name, _, _ := bytes.Cut(field, []byte{0})
	return string(name)
}

// find returns the entries of a chain, its mark first; nothing when it is not
// there.
func (t *Table) find(chain string) []*entry {
	begin := slices.IndexFunc(t.entries, func(e *entry) bool { return t.family.chain(e) == chain })
	if begin < 0 {
		return nil
	}
	length := 1 + slices.IndexFunc(t.entries[begin+1:], func(e *entry) bool { return t.family.chain(e) != "" })
	return t.entries[begin : begin+length]
}

// Set puts a chain with these rules into the table, and a jump to it before all
// else of PREROUTING. A chain of that name and the jumps to it go first. tagged
// puts a comment on each rule, which takes a kernel that knows them.
func (t *Table) Set(chain string, rules []Rule, tagged bool) {
	t.remove(chain)
	foot := &entry{raw: t.family.blank(nil, standard(verdictReturn))}
	ours := []*entry{{raw: t.family.mark(chain)}}
	ours = append(ours, lists.Map(rules, func(r Rule) *entry { return &entry{raw: t.family.raw(r, tagged)} })...)
	ours = append(ours, foot)
	t.entries = slices.Insert(t.entries, len(t.entries)-1, ours...)
	jump := &entry{raw: t.family.jump(tagged), to: ours[1]}
	t.entries = slices.Insert(t.entries, slices.Index(t.entries, t.begins[prerouting]), jump)
	t.begins[prerouting] = jump
}

// remove removes a chain and the jumps to it. Offsets to a removed entry are moved to the next
// remaining one.
func (t *Table) remove(chain string) {
	ours := t.find(chain)
	if len(ours) == 0 {
		return
	}
	goes := func(e *entry) bool { return slices.Contains(ours, e) || e.to != nil && e.to == ours[1] }
	heir, after := map[*entry]*entry{}, (*entry)(nil)
	for _, e := range slices.Backward(t.entries) {
		if goes(e) {
			heir[e] = after
		} else {
			after = e
		}
	}
	for i, e := range t.begins {
		if to, gone := heir[e]; gone {
			t.begins[i] = to
		}
	}
	t.entries = slices.DeleteFunc(slices.Clone(t.entries), func(e *entry) bool { _, gone := heir[e]; return gone })
	for _, e := range t.entries {
		if to, gone := heir[e.to]; gone {
			e.to = to
		}
	}
}

// Chain returns the rules of a chain as the kernel has them, and reports whether every packet
// of PREROUTING is sent there first. It returns nil and false when there is no such chain.
func (t *Table) Chain(name string) (rules [][]byte, first bool) {
	ours := t.find(name)
	if len(ours) < 2 {
		return nil, false
	}
	rules = append(rules, lists.Map(ours[1:len(ours)-1], func(e *entry) []byte { return e.raw })...)
	head := t.begins[prerouting]
	if head.to != ours[1] {
		return rules, false
	}
	bare := bytes.Clone(head.raw)
	t.family.setJump(bare, 0)
	return rules, bytes.Equal(bare, t.family.jump(true)) || bytes.Equal(bare, t.family.jump(false))
}

// Entries returns rules in the form of Chain.
func (f Family) Entries(rules []Rule, tagged bool) [][]byte {
	return lists.Map(rules, func(r Rule) []byte { return f.raw(r, tagged) })
}

// setJump writes the offset that an entry jumps to.
func (f Family) setJump(raw []byte, to uint32) {
	native.PutUint32(raw[int(native.Uint16(raw[f.offsets:]))+headSize:], to)
}

// Len is the number of entries.
func (t *Table) Len() int { return len(t.entries) }

// Request returns the request that replaces the kernel's table, which has so many
// entries now, with this one. counters is the address of room for as many
// counters, CounterSize bytes each, where the kernel leaves those that end.
func (t *Table) Request(entriesNow int, counters uint64) []byte {
	at, size := map[*entry]uint32{}, uint32(0)
	for _, e := range t.entries {
		at[e] = size
		size += uint32(len(e.raw))
	}
	out := make([]byte, requestHead, requestHead+int(size))
	copy(out, TableName)
	native.PutUint32(out[32:], t.valid)
	native.PutUint32(out[36:], uint32(len(t.entries)))
	native.PutUint32(out[40:], size)
	for i := range hooks {
		native.PutUint32(out[44+4*i:], at[t.begins[i]])
		native.PutUint32(out[64+4*i:], at[t.underflowed[i]])
	}
	native.PutUint32(out[84:], uint32(entriesNow))
	native.PutUint64(out[88:], counters)
	for _, e := range t.entries {
		begin := len(out)
		out = append(out, e.raw...)
		if e.to != nil {
			t.family.setJump(out[begin:], at[e.to])
		}
	}
	return out
}
