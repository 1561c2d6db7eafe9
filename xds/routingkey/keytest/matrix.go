package keytest

import (
	"fmt"
	"slices"
	"strings"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/xds/routingkey"
)

// Case is one request of the matrix, named by the choices that made it.
type Case struct {
	Name string
	Form
}

// The matrix combines members from parts. A table below gives each part with its meaning, so
// the expected key of a request follows from its parts, not from parsing it.

// name is a way to write a member's name.
type name struct {
	text   string
	counts bool // it is Member
}

var names = []name{
	{"sd-routing-key", true},
	{" sd-routing-key", true},
	{"\tsd-routing-key \t", true},
	{"SD-ROUTING-KEY", false},
	{"Sd-Routing-Key", false},
	{"x-sd-routing-key", false},
	{"sd-routing-key-x", false},
	{"sd_routing_key", false},
	{"sd-routing-ke", false},
	{"sd%2Drouting-key", false},
	{"sd routing-key", false},
	{"sd-routing-key x", false},
	{`"sd-routing-key"`, false},
	{"a;sd-routing-key", false},
	{"sd-routing-key;p", false},
	{"a=sd-routing-key", false},
	{"sd-routing-key\xc2\xa0", false}, // a no-break space, which is not white space here
	{"\xffsd-routing-key", false},
	{"", false},
}

// value is a way to write a member's value, with the key that it is in each kind
// of list; "" for none.
type value struct {
	text                string
	baggage, tracestate string
}

// same is a value that is a key as it stands, but for white space around it.
func same(text, key string) value { return value{text, key, key} }

var values = []value{
	same("k1", "k1"),
	same("K1", "K1"),
	same(" k1", "k1"),
	same("k1 \t", "k1"),
	same("\t k1 x\t ", "k1 x"),
	same("k%31", "k%31"),
	same("k1%2Cx", "k1%2Cx"),
	same("k1%3Bp", "k1%3Bp"),
	same("%20k1", "%20k1"),
	same("k+1", "k+1"),
	same("k1=", "k1="),
	same("=k1", "=k1"),
	same("= k1", "= k1"),
	same("a=b=c", "a=b=c"),
	same("sd-routing-key=k2", "sd-routing-key=k2"),
	same(`"k1"`, `"k1"`),
	same(`"k1`, `"k1`),
	same(`k\1`, `k\1`),
	same("$1", "$1"),
	same("k.*|[k]", "k.*|[k]"),
	same("8080/k1", "8080/k1"),
	same("kë", "kë"),
	same("k1\xc2\xa0", "k1\xc2\xa0"),
	same("\xff\xfe", "\xff\xfe"),
	same("k1\xc3", "k1\xc3"),
	same("", ""),
	same(" \t ", ""),
	{"k1;p=1", "k1", "k1;p=1"},
	{"k1 ;p;q=2", "k1", "k1 ;p;q=2"},
	{"k1;", "k1", "k1;"},
	{"k1;sd-routing-key=k2", "k1", "k1;sd-routing-key=k2"},
	{";k1", "", ";k1"},
	{" ; p=k1", "", "; p=k1"},
	same(longest, longest),
	same("  "+longest+" ", longest),
	{longest + ";p", longest, tooLong}, // too long where the property is part of it
	{longest + "k", tooLong, tooLong},
}

var longest = strings.Repeat("k", routingkey.MaxLength-1)

// tooLong represents a value that is not empty and no key either: it hides the others of its
// list.
const tooLong = "\x00"

// member is a name and a value.
type member struct {
	name
	value
}

// layout puts a member between others: nil marks its position.
type layout struct {
	name   string
	around []*member
}

var (
	stranger = &member{name{"userId", false}, same("alice", "alice")}
	nothing  = &member{} // written as nothing at all
	other    = &member{name{"sd-routing-key", true}, same("k9", "k9")}
	blank    = &member{name{"sd-routing-key", true}, same("", "")}
)

func layouts() []layout {
	return []layout{
		{"alone", []*member{nil}},
		{"after a stranger", []*member{stranger, nil}},
		{"before a stranger", []*member{nil, stranger}},
		{"between strangers", []*member{stranger, nil, stranger}},
		{"between nothing", []*member{nothing, nil, nothing, nothing}},
		{"before another key", []*member{nil, other}},
		{"after another key", []*member{other, nil}},
		{"before one without a value", []*member{nil, blank}},
		{"after one without a value", []*member{blank, nil}},
		{"as the 64th", append(slices.Repeat([]*member{stranger}, 63), nil)},
		{"as the 65th", append(slices.Repeat([]*member{stranger}, 64), nil)},
		{"as the first of 200", append([]*member{nil}, slices.Repeat([]*member{stranger}, 199)...)},
	}
}

// joint is the text between two members; "" for a new header line.
type joint struct{ name, text string }

var joints = []joint{{"commas", ","}, {"commas and white space", " ,\t"}, {"lines", ""}}

// Matrix returns requests with one list header for every combination of the spelling of the
// member's name and value, the members around it, the separator, and the header; and
// Precedence's. With long false, unusual names are combined with few values.
func Matrix(long bool) []Case {
	var all []Case
	for _, m := range written(long) {
		for _, l := range layouts() {
			for _, j := range joints {
				for _, header := range []string{routingkey.Baggage, routingkey.Tracestate} {
					all = append(all, listCase(m, l, j, header))
				}
			}
		}
	}
	return append(all, Precedence()...)
}

func written(long bool) []member {
	var all []member
	for _, n := range names {
		for i, v := range values {
			if long || n.counts || i == 0 || v.text == "" || v.text == "k1;sd-routing-key=k2" {
				all = append(all, member{n, v})
			}
		}
	}
	return all
}

func listCase(m member, l layout, j joint, header string) Case {
	var texts, keys []string
	for _, one := range l.around {
		if one == nil {
			one = &m
		}
		text, key := one.write(header)
		texts = append(texts, text)
		if key != "" {
			keys = append(keys, key)
		}
	}
	lines := [][2]string{}
	if j.text == "" {
		lines = append(lines, lists.Map(texts, func(text string) [2]string { return [2]string{header, text} })...)
	} else {
		lines = append(lines, [2]string{header, strings.Join(texts, j.text)})
	}
	key := ""
	switch {
	case len(keys) > 0 && header == routingkey.Baggage:
		key = keys[len(keys)-1]
	case len(keys) > 0:
		key = keys[0]
	}
	if key == tooLong {
		key = ""
	}
	return Case{
		Name: fmt.Sprintf("%s: %.40q=%.40q (%d bytes), %s, by %s", header, m.name.text, m.value.text, len(m.value.text), l.name, j.name),
		Form: Form{Lines: lines, Key: key},
	}
}

// write returns the member's text in a header, and the key that it is there.
func (m *member) write(header string) (text, key string) {
	if m == nothing {
		return "", ""
	}
	text = m.name.text + "=" + m.value.text
	switch {
	case !m.counts:
		return text, ""
	case header == routingkey.Baggage:
		return text, m.baggage
	}
	return text, m.tracestate
}

// source is the content of one header; key is "" when it has none.
type source struct {
	lines []string
	key   string
}

// Precedence returns requests in which several headers can have a key: every combination of
// their contents.
func Precedence() []Case {
	list := func(k string) []source {
		return []source{
			{nil, ""},
			{[]string{""}, ""},
			{[]string{"a=b"}, ""},
			{[]string{"sd-routing-key="}, ""},
			{[]string{"sd-routing-key=" + longest + "k"}, ""},
			{[]string{"sd-routing-key=" + k}, k},
			{[]string{"a=b", "sd-routing-key=" + k}, k},
		}
	}
	whole := func(k string) []source {
		return []source{
			{nil, ""},
			{[]string{""}, ""},
			{[]string{" \t"}, ""},
			{[]string{longest + "k"}, ""},
			{[]string{k}, k},
			{[]string{"\t" + k + " "}, k},
			{[]string{k, ""}, ""},
			{[]string{k + " , " + k}, ""},
			{[]string{k, k}, ""},
		}
	}
	custom := CustomHeaders()
	var all []Case
	for i, inBaggage := range list("kb") {
		for j, inTracestate := range list("kt") {
			for k, inFirst := range whole("k1") {
				for l, inSecond := range whole("k2") {
					c := Case{Name: fmt.Sprintf("precedence: baggage %d, tracestate %d, custom %d and %d", i, j, k, l)}
					// The order on the wire is the reverse of the order of precedence.
					c.add(strings.ToUpper(custom[1]), inSecond)
					c.add(custom[0], inFirst)
					c.add(routingkey.Tracestate, inTracestate)
					c.add("Baggage", inBaggage)
					all = append(all, c)
				}
			}
		}
	}
	return all
}

// add adds a header of a higher precedence than those before.
func (c *Case) add(header string, s source) {
	c.Lines = append(c.Lines, lists.Map(s.lines, func(line string) [2]string { return [2]string{header, line} })...)
	if s.key != "" {
		c.Key = s.key
	}
}
