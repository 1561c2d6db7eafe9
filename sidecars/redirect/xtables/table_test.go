package xtables

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// empty returns the table that the kernel begins with: a policy for each of nat's
// four hooks, and the end.
func empty(f Family) *Table {
	t := &Table{family: f, valid: 0b11011}
	for hook := range hooks {
		if t.valid&(1<<hook) == 0 {
			continue
		}
		e := &entry{raw: f.blank(nil, standard(-2))} // accept
		t.entries = append(t.entries, e)
		t.begins[hook], t.underflowed[hook] = e, e
	}
	t.entries = append(t.entries, &entry{raw: f.mark(targetError)})
	return t
}

// answerFor returns what the kernel would answer to InfoOption after a request.
func answerFor(request []byte) []byte {
	return slices.Concat(make([]byte, nameSize), request[32:36], request[44:84], request[36:44])
}

// again returns a table as it is read back once the kernel has taken it.
func again(t *rapid.T, f Family, table *Table) (*Table, []byte) {
	request := table.Request(1, 0)
	answer := answerFor(request)
	shape, err := ParseShape(answer)
	if err != nil {
		t.Fatal(err)
	}
	read, err := Parse(f, shape, request[requestHead:])
	if err != nil {
		t.Fatal(err)
	}
	return read, request
}

func drawRules(t *rapid.T, label string) []Rule {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Rule {
		r := Rule{Loopback: rapid.Bool().Draw(t, "loopback"), TCP: rapid.Bool().Draw(t, "tcp")}
		if r.TCP {
			r.Port, r.Opening = rapid.Uint16().Draw(t, "port"), rapid.Bool().Draw(t, "opening")
		}
		r.To = rapid.Uint16().Draw(t, "to")
		return r
	}), 0, 5).Draw(t, label)
}

func TestRulesAreReadBackAndReplacedCompletely(t *testing.T) {
	for _, f := range []Family{IPv4(), IPv6()} {
		t.Run(f.Name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				first, second, others := drawRules(t, "first"), drawRules(t, "second"), drawRules(t, "others")
				tagged := rapid.Bool().Draw(t, "tagged")
				once := empty(f)
				once.Set("OTHER", others, true)
				_, bare := again(t, f, once)
				once.Set("OURS", second, tagged)
				_, want := again(t, f, once)

				twice := empty(f)
				twice.Set("OTHER", others, true)
				twice.Set("OURS", first, !tagged)
				twice, _ = again(t, f, twice)
				twice.Set("OURS", second, tagged)
				read, got := again(t, f, twice)
				if !bytes.Equal(got, want) {
					t.Fatal("a chain that was replaced is not one that was put in")
				}
				rules, before := read.Chain("OURS")
				if !before || !slices.EqualFunc(rules, f.Entries(second, tagged), bytes.Equal) {
					t.Fatalf("read back %d rules, asked first: %v", len(rules), before)
				}
				if _, before := read.Chain("OTHER"); before {
					t.Fatal("two chains are asked first")
				}
				read.remove("OURS")
				if _, got := again(t, f, read); !bytes.Equal(got, bare) {
					t.Fatal("a chain that was taken out has left something")
				}
			})
		})
	}
}

func TestBytesThatAreNoTableAreAnError(t *testing.T) {
	for _, f := range []Family{IPv4(), IPv6()} {
		t.Run(f.Name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				table := empty(f)
				table.Set("OURS", drawRules(t, "rules"), true)
				request := table.Request(1, 0)
				answer := answerFor(request)
				raw := request[requestHead:]
				for range rapid.IntRange(1, 4).Draw(t, "changes") {
					where := rapid.SampledFrom([][]byte{answer, raw}).Draw(t, "where")
					where[rapid.IntRange(0, len(where)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "value")
				}
				shape, err := ParseShape(answer)
				if err != nil {
					t.Fatal(err)
				}
				read, err := Parse(f, shape, raw[:rapid.IntRange(0, len(raw)).Draw(t, "length")])
				if err != nil {
					return
				}
				read.Set("OURS", nil, false) // does not panic either
				read.Request(1, 0)
				read.Chain("OTHER")
			})
		})
	}
	if _, err := ParseShape(nil); err == nil {
		t.Error("nothing was taken for a shape")
	}
}
