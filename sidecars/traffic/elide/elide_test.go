package elide_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/elide"
)

func rules(t testing.TB, paths ...string) *elide.Rules {
	t.Helper()
	r, err := elide.New(&trafficv1.Capture{JsonPathsElided: paths, RequestHeadersElided: []string{"X-Api-Key"}, ResponseHeadersElided: []string{"x-secret "}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// headers returns names with their values.
func headers(pairs ...string) (all []*trafficv1.Header) {
	for pair := range slices.Chunk(pairs, 2) {
		all = append(all, &trafficv1.Header{Name: pair[0], Value: pair[1]})
	}
	return all
}

func TestHeadersByNameAndByHopAreRemoved(t *testing.T) {
	r := rules(t)
	kept, elided := r.Headers(elide.Request, headers(
		"Authorization", "Bearer canary", "authentication", "canary", "Cookie", "a=canary", "SET-COOKIE", "canary", "X-Kept", "b",
		"Connection", "close, X-Hop", "X-Hop", "canary", "X-Other", "canary", "Connection", "x-other", "Proxy-Authorization", "canary",
		"X-Api-Key", "canary", "SET-COOKIE", "canary", "X-Kept", "a", "Odd", "a\xff", "Sd-Return", "canary",
	))
	if got := fmt.Sprint(kept); strings.Contains(got, "canary") || len(kept) != 3 || kept[0].Value != "a\ufffd" || kept[1].Value != "b" {
		t.Errorf("kept are %v", kept)
	}
	if len(elided) != 9 || !slices.Contains(elided, "x-api-key") || !slices.Contains(elided, "x-hop") {
		t.Errorf("removed are %q", elided)
	}
	kept, _ = r.Headers(elide.Response, headers("X-Api-Key", "of a request", "X-Secret", "canary", "Authorization", "canary"))
	if len(kept) != 1 || kept[0].Value != "of a request" {
		t.Errorf("kept of the response are %v", kept)
	}
}

func TestPathsThatAreNotSupportedAreNamed(t *testing.T) {
	for _, text := range []string{"", "$", "a.b", "$.", "$..", "$a", "$.a b", "$[-1]", "$[0:2]", "$[?(@.a)]", "$['a','b']", "$.a[", "$['a", "$['a\\'b']", "$[01]", "$." + strings.Repeat("a", 600)} {
		if _, err := elide.New(&trafficv1.Capture{JsonPathsElided: []string{"$.fine", text}}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%.100q", text)[:min(len(text)+1, 100)]) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
	if _, err := elide.New(&trafficv1.Capture{JsonPathsElided: slices.Repeat([]string{"$.a"}, 65)}); err == nil {
		t.Error("65 paths are accepted")
	}
}

// body returns the body that remains, and the names of removed parts.
func body(r *elide.Rules, kind, encoding, text string, size int) (string, []string) {
	m := &trafficv1.Message{Body: []byte(text), BodySize: uint64(size), BodySha256: []byte("hash"), Frames: []uint64{1}} //nolint:gosec // a length
	if kind != "" {
		m.Headers = append(m.Headers, &trafficv1.Header{Name: "Content-Type", Value: kind})
	}
	if encoding != "" {
		m.Headers = append(m.Headers, &trafficv1.Header{Name: "content-encoding", Value: encoding})
	}
	r.Body(m)
	if changed := len(m.Elided) > 0; changed == (m.BodySha256 != nil) || changed == (m.Frames != nil) {
		m.Elided = append(m.Elided, "WRONG: hash and frames stay exactly if the body does")
	}
	return string(m.Body), m.Elided
}

func TestPathsSelectValues(t *testing.T) {
	for _, c := range []struct{ paths, text, want string }{
		{`$.a`, `{"a": 1, "b": {"a": 2}}`, `{"a": null, "b": {"a": 2}}`},
		{`$.a.b`, `{"a":{"b":{"x":[1,2]},"c":3}}`, `{"a":{"b":null,"c":3}}`},
		{`$..a`, `[{"a":1},{"b":[{"a":[2]}]}]`, `[{"a":null},{"b":[{"a":null}]}]`},
		{`$..a.b`, `{"a":{"a":{"b":1},"b":2}}`, `{"a":{"a":{"b":null},"b":null}}`},
		{`$.a[*].b`, `{"a":[{"b":1},{"b":2,"c":3}]}`, `{"a":[{"b":null},{"b":null,"c":3}]}`},
		{`$.a.*`, `{"a":{"b":1,"c":"x,y}"}}`, `{"a":{"b":null,"c":null}}`},
		{`$[1]`, `[1, "two" , 3]`, `[1, null , 3]`},
		{`$['a b']["c"]`, `{"a b":{"c":true}}`, `{"a b":{"c":null}}`},
		{`$.a`, `{"\u0061":"canary"}`, `{"\u0061":null}`},
		{`$.a`, `{"a":1,"a":2}`, `{"a":null,"a":null}`},
		{`$.a`, "{\"a\":1}\n{\"a\":2}\n", "{\"a\":null}\n{\"a\":null}\n"},
		{`$.a`, "\x1e{\"a\":1}\x1e[2]", "\x1e{\"a\":null}\x1e[2]"},
		{`$.a`, "\ufeff{\"a\":1}", "\ufeff{\"a\":null}"},
		{`$.a $..b`, `{"a":{"b":1},"c":{"b":"\"}"}}`, `{"a":null,"c":{"b":null}}`},
		{`$..*.z`, `{"p":{"q":{"z":1}},"z":2}`, `{"p":{"q":{"z":null}},"z":2}`},
		{`$..[0]`, `[[1,2],[3,4]]`, `[null,[null,4]]`},
	} {
		paths := strings.Split(c.paths, " ")
		if c.paths[:3] == "$['" {
			paths = []string{c.paths}
		}
		got, elided := body(rules(t, paths...), "", "", c.text, len(c.text))
		if got != c.want || len(elided) == 0 || !slices.Contains(paths, elided[0]) {
			t.Errorf("%s of %s: %s, removed %q", c.paths, c.text, got, elided)
		}
	}
}

func TestBodiesThatCannotBeReadAreRemoved(t *testing.T) {
	r := rules(t, "$.a")
	whole := `{"b":"canary"}`
	for _, c := range []struct {
		name, kind, encoding, text string
		size                       int
		kept                       bool
	}{
		{"no value of the path", "application/json", "", whole, len(whole), true},
		{"identity", "application/json", "identity", whole, len(whole), true},
		{"cut", "application/json", "", whole[:9], len(whole), false},
		{"cut after a whole value", "", "", whole, len(whole) + 10, false},
		{"cut without a type", "", "", whole[:9], len(whole), false},
		{"cut and declared as text", "text/plain", "", " \n" + whole[:9], len(whole), false},
		{"compressed", "application/json", "gzip", "\x1f\x8b", 2, false},
		{"not valid", "application/vnd.x+json", "", `'a'`, 3, false},
		{"with a tail", "", "", whole + " canary", len(whole) + 7, false},
		{"mark within", "", "", "{\ufeff\"a\":\"canary\"}", 19, false},
		{"UTF-16", "", "", "\xff\xfe{\x00", 4, false},
		{"UTF-16 without mark", "", "", "\x00{", 2, false},
		{"blank", "", "", strings.Repeat(" ", 300) + "{", 301, false},
		{"deep", "", "", `{"a":1}` + strings.Repeat(`[`, 5000) + strings.Repeat(`]`, 5000), 10007, true},
		{"events", "text/event-stream", "", "data: {}", 8, false},
		{"multipart", "multipart/form-data; boundary=x", "", "--x", 3, false},
		{"text", "text/html", "", "<p>canary", 9, true},
		{"cut text", "text/html", "", "<p>canary", 90, true},
		{"gRPC", "application/grpc", "", "\x00\x00\x00\x00\x7b{\x0a", 7, true},
		{"gRPC of JSON", "application/grpc+json", "", "\x00\x00\x00\x00\x02{}", 7, false},
	} {
		got, elided := body(r, c.kind, c.encoding, c.text, c.size)
		if (got != "") != c.kept || c.kept != (len(elided) == 0) && c.name != "deep" || got == "" && !strings.HasPrefix(elided[0], "body: ") {
			t.Errorf("%s: %q remains, removed %q", c.name, got, elided)
		}
	}
	for _, deep := range []string{"[", `{"x":`} {
		text := strings.Repeat(deep, 1002) + `{"a":"canary"}` + strings.Repeat(map[string]string{"[": "]", `{"x":`: "}"}[deep], 1002)
		if got, _ := body(rules(t, "$..a"), "", "", text, len(text)); got != "" {
			t.Errorf("a body that is too deep stays: %.20s", got)
		}
	}
	if got, elided := body(rules(t), "application/json", "gzip", "x", 100); got != "x" || elided != nil {
		t.Errorf("without paths %q remains, removed %q", got, elided)
	}
}

// dumb is the same by decoding: the values of a path become nil.
func dumb(v any, steps []string) any {
	step, rest := steps[0], steps[1:]
	deep := strings.HasPrefix(step, "..")
	name := strings.TrimLeft(step, ".")
	child := func(key string, v any) any {
		if deep {
			v = dumb(v, steps)
		}
		if name != key && name != "*" {
			return v
		}
		if len(rest) == 0 {
			return nil
		}
		return dumb(v, rest)
	}
	switch v := v.(type) {
	case map[string]any:
		for k, c := range v {
			v[k] = child(k, c)
		}
	case []any:
		for i, c := range v {
			key := ""
			if name == "*" {
				key = "*"
			}
			v[i] = child(key, c)
		}
	}
	return v
}

// FuzzBodyAgreesWithDecoding compares any body with the dumb version.
func FuzzBodyAgreesWithDecoding(f *testing.F) {
	paths := [][]string{{".a"}, {"..b", ".c"}, {".d", ".*"}, {"..e"}}
	r := rules(f, "$.a", "$..b.c", "$.d.*", "$..e")
	for _, seed := range []string{`{"a":1}`, `[{"b":{"c":1}}]`, `{"d":[1,{"e":2}]}`, `{"b":{"b":{"c":{"e":1}}}} 7 "x"`, "\x1e{}", `{"\u0061":"\"}"}`, "[\"\x1e\"]", `{"a":tru`, "\ufeff1"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		got, elided := body(r, "application/json", "", string(text), len(text))
		if !bytes.Equal(before, text) {
			t.Fatal("the input is changed")
		}
		if len(elided) > 0 && strings.HasPrefix(elided[len(elided)-1], "WRONG") {
			t.Fatal(elided)
		}
		if got == "" {
			return
		}
		want, err := values(before)
		have, errHave := values([]byte(got))
		if err != nil || errHave != nil {
			t.Fatalf("%q remains of %q: %v, %v", got, before, err, errHave)
		}
		for i := range want {
			for _, p := range paths {
				want[i] = dumb(want[i], p)
			}
		}
		a, _ := json.Marshal(want)
		b, _ := json.Marshal(have)
		if !bytes.Equal(a, b) {
			t.Fatalf("%q becomes %q, want the value %s", before, got, a)
		}
	})
}

func values(text []byte) (all []any, err error) {
	text = bytes.ReplaceAll(bytes.TrimPrefix(text, []byte("\ufeff")), []byte{0x1e}, []byte{' '})
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	for {
		var v any
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
}

// FuzzCanariesNeverRemain puts canaries where paths name them, into JSON of random form, which is cut and damaged anywhere.
func FuzzCanariesNeverRemain(f *testing.F) {
	r := rules(f, "$.secret", "$..token", "$.users[*].password", "$['a b'].*")
	f.Add(uint64(1), 10000, "application/json")
	f.Add(uint64(2), 20, "")
	f.Fuzz(func(t *testing.T, seed uint64, cut int, kind string) {
		g := &generator{rand.New(rand.NewPCG(seed, 1))} //nolint:gosec // a seed
		text := g.object(4, map[string]bool{"secret": true}, true)
		kept := text[:max(0, min(len(text), cut))]
		if got, elided := body(r, kind, "", kept, len(text)); strings.Contains(got, "canary") {
			t.Fatalf("%q remains of %q, removed %q", got, kept, elided)
		}
	})
}

// generator makes random JSON.
type generator struct{ *rand.Rand }

func (g *generator) blank() string { return []string{"", " ", "\n\t", "\r\n"}[g.IntN(4)] }

// key writes a name, some of its characters as escapes.
func (g *generator) key(name string) string {
	var b strings.Builder
	for _, c := range name {
		if g.IntN(4) == 0 {
			fmt.Fprintf(&b, `\u%04X`, c)
		} else {
			b.WriteRune(c)
		}
	}
	return `"` + b.String() + `"`
}

// object writes an object. Below a secret name everything is a canary.
func (g *generator) object(depth int, secret map[string]bool, top bool) string {
	var members []string
	for range 1 + g.IntN(5) {
		name := []string{"secret", "token", "users", "a b", "other", `qu\"ote}`, "ключ"}[g.IntN(7)]
		var value string
		switch {
		case name == "token" || secret[name]:
			value = g.canary(depth)
		case name == "users" && top:
			value = `[{"password":` + g.canary(depth) + `},` + g.blank() + `{"id":1,"password":` + g.canary(0) + `}]`
		case name == "a b" && top:
			value = `{"x":` + g.canary(depth) + `}`
		case depth > 0 && g.IntN(2) == 0:
			value = g.object(depth-1, nil, false)
		default:
			value = []string{`1e5`, `-0`, `"fine"`, `true`, `[1,{"token":"canary"}]`, `"\\"`, `"]}"`, `null`, `[]`, `{}`}[g.IntN(10)]
		}
		key := g.key(name)
		if strings.Contains(name, `\`) {
			key = `"` + name + `"`
		}
		members = append(members, g.blank()+key+g.blank()+":"+g.blank()+value+g.blank())
	}
	return "{" + strings.Join(members, ",") + "}"
}

func (g *generator) canary(depth int) string {
	if depth > 0 && g.IntN(2) == 0 {
		return `{"x":["canary",{"y":"canary}"}]}`
	}
	return `"canary\"]"`
}
