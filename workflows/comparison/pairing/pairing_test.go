package pairing_test

import (
	"fmt"
	"strings"
	"testing"

	"switchyard.dev/workflows/comparison/exchange"
	"switchyard.dev/workflows/comparison/pairing"
)

func show(pairs []pairing.Pair, unpaired []pairing.Unpaired) string {
	var found []string
	ids := func(all []*exchange.Exchange) string {
		var ids []string
		for _, e := range all {
			if e == nil {
				ids = append(ids, "-")
				continue
			}
			ids = append(ids, e.ID)
		}
		return strings.Join(ids, ",")
	}
	for _, p := range pairs {
		found = append(found, fmt.Sprintf("%s:%s=%s", p.By, ids(p.Baseline), ids(p.Fork)))
	}
	for _, u := range unpaired {
		found = append(found, fmt.Sprintf("unpaired:%v%d:%s", u.Fork, u.Run, u.Exchange.ID))
	}
	return strings.Join(found, " ")
}

func TestExchangesArePairedByTestThenTraceThenPath(t *testing.T) {
	get := func(id, path string) exchange.Exchange { return exchange.Exchange{ID: id, Method: "GET", Path: path} }
	test := func(id, name string, call int) exchange.Exchange {
		return exchange.Exchange{ID: id, Test: "t", Name: name, Call: call, Method: "GET", Path: "/" + id}
	}
	traced := func(id, trace string) exchange.Exchange {
		return exchange.Exchange{ID: id, Trace: trace, Method: "GET", Path: "/x"}
	}
	for name, row := range map[string]struct {
		baseline, fork []exchange.Run
		want           string
	}{
		"by test, in another order": {[]exchange.Run{{test("a", "one", 0), test("b", "two", 0)}}, []exchange.Run{{test("c", "two", 0), test("d", "one", 0)}}, "test:a=d test:b=c"},
		"calls of one name":         {[]exchange.Run{{test("a", "one", 0), test("b", "one", 0)}}, []exchange.Run{{test("c", "one", 2), test("d", "one", 1)}}, "test:a=d test:b=c"},
		"three runs, one without":   {[]exchange.Run{{test("a", "one", 0)}, {}, {test("c", "one", 0)}}, []exchange.Run{{test("d", "one", 0)}}, "test:a,-,c=d"},
		"by trace":                  {[]exchange.Run{{traced("a", "1"), traced("b", "2")}}, []exchange.Run{{traced("c", "2"), traced("d", "1")}}, "trace:a=d trace:b=c"},
		"traces of their own":       {[]exchange.Run{{traced("a", "1")}}, []exchange.Run{{traced("b", "9")}}, "path:a=b"},
		"by template":               {[]exchange.Run{{get("a", "/users/12/x?y=1")}}, []exchange.Run{{get("b", "/users/99/x")}}, "path:a=b"},
		"unpaired":                  {[]exchange.Run{{get("a", "/a"), get("b", "/b")}}, []exchange.Run{{get("c", "/a"), get("d", "/a"), get("e", "/d")}}, "path:a=c unpaired:false0:b unpaired:true0:d unpaired:true0:e"},
		"methods differ":            {[]exchange.Run{{get("a", "/a")}}, []exchange.Run{{{ID: "b", Method: "PUT", Path: "/a"}}}, "unpaired:false0:a unpaired:true0:b"},
	} {
		if got := show(pairing.Find(row.baseline, row.fork)); got != row.want {
			t.Errorf("%s: %s, not %s", name, got, row.want)
		}
	}
}

func TestTemplatesReplaceNamesOfObjects(t *testing.T) {
	for path, want := range map[string]string{
		"/v1/users/17": "/v1/users/{}", "/a/25879fc4-f5bb-4608-a865-db48969ea74e/b": "/a/{}/b", "/rides/T726845C": "/rides/T726845C", "/orders/ord_12345": "/orders/{}", "/health": "/health",
	} {
		if got := pairing.Template(path); got != want {
			t.Errorf("%s: %s, not %s", path, got, want)
		}
	}
}
