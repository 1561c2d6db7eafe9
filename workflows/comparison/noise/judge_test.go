package noise_test

import (
	"fmt"
	"strings"
	"testing"

	"switchyard.dev/workflows/comparison/noise"
	"switchyard.dev/workflows/comparison/structure"
)

// judged returns the findings of runs, separated by spaces; - is a run without a value.
func judged(t *testing.T, baseline, fork string) string {
	t.Helper()
	side := func(text string) (values []*structure.Value) {
		for one := range strings.FieldsSeq(text) {
			if one == "-" {
				values = append(values, nil)
				continue
			}
			v, err := structure.JSON([]byte(strings.ReplaceAll(one, "_", " ")))
			if err != nil {
				t.Fatalf("%s: %v", one, err)
			}
			values = append(values, v)
		}
		return values
	}
	var found []string
	for _, f := range noise.Judge("", side(baseline), side(fork)) {
		found = append(found, fmt.Sprintf("%s %s%s %s", f.Colour, f.Operation, f.At, f.Property))
	}
	return strings.Join(found, ", ")
}

func TestForksAreJudgedByWhatTheBaselineVaries(t *testing.T) {
	for name, row := range map[string]struct{ baseline, fork, want string }{
		"the same":                             {`{"a":1} {"a":1} {"a":1}`, `{"a":1} {"a":1} {"a":1}`, ""},
		"members in another order":             {`{"a":1,"b":2} {"b":2,"a":1} {"a":1,"b":2}`, `{"b":2,"a":1} {"b":2,"a":1} {"b":2,"a":1}`, ""},
		"another value":                        {`{"a":1} {"a":1} {"a":1}`, `{"a":2} {"a":2} {"a":2}`, "red replace/a value"},
		"another value in one run":             {`{"a":1} {"a":1} {"a":1}`, `{"a":1} {"a":2} {"a":1}`, "yellow replace/a value"},
		"removed":                              {`{"a":1} {"a":1} {"a":1}`, `{} {} {}`, "red remove/a type"},
		"added":                                {`{} {} {}`, `{"a":1} {"a":1} {"a":1}`, "red add/a type"},
		"sometimes there":                      {`{"a":1} {} {"a":1}`, `{} {} {}`, ""},
		"null":                                 {`{"a":"x"} {"a":"x"} {"a":"y"}`, `{"a":null} {"a":null} {"a":null}`, "red replace/a type"},
		"numbers in the range":                 {`{"a":10} {"a":12} {"a":9}`, `{"a":13} {"a":11} {"a":12}`, ""},
		"numbers far from the range":           {`{"a":10} {"a":12} {"a":9}`, `{"a":113} {"a":111} {"a":112}`, "red replace/a range"},
		"numbers in another unit":              {`{"a":1000} {"a":1700} {"a":900}`, `{"a":1} {"a":1.7} {"a":0.9}`, "red replace/a range"},
		"a decimal became whole":               {`{"a":1.25} {"a":1.31} {"a":1.27}`, `{"a":1} {"a":1} {"a":1}`, "red replace/a precision"},
		"a counter of another process":         {`{"a":1005} {"a":1009} {"a":1012}`, `{"a":1} {"a":4} {"a":7}`, ""},
		"a constant that varies in the fork":   {`{"a":2} {"a":2} {"a":2}`, `{"a":3} {"a":5} {"a":4}`, "yellow replace/a value"},
		"times":                                {`{"a":"2026-11-30T09:00:01Z"} {"a":"2026-11-30T09:00:03Z"} {"a":"2026-11-30T09:00:05Z"}`, `{"a":"2026-11-30T09:10:01Z"} {"a":"2026-11-30T09:10:03Z"} {"a":"2026-11-30T09:10:05Z"}`, ""},
		"times of another year":                {`{"a":"2026-11-30T09:00:01Z"} {"a":"2026-11-30T09:00:03Z"} {"a":"2026-11-30T09:00:05Z"}`, `{"a":"1970-01-01T00:00:01Z"} {"a":"1970-01-01T00:00:02Z"} {"a":"1970-01-01T00:00:03Z"}`, "red replace/a range"},
		"identifiers":                          {`{"a":"25879fc4-f5bb-4608-a865-db48969ea74e"} {"a":"bc40d729-5275-4f3c-aba9-49471db09e4a"} {"a":"2f46fb30-f39c-4d6a-a08a-5b4bb32c0e5c"}`, `{"a":"9a340ff5-a5f8-4c4a-ac73-a326879aac65"} {"a":"a16febd0-5a27-45c7-ae97-e7a3d7d796c3"} {"a":"352e3637-a508-4af8-a14e-73e3c19f5968"}`, ""},
		"identifiers of another format":        {`{"a":"25879fc4-f5bb-4608-a865-db48969ea74e"} {"a":"bc40d729-5275-4f3c-aba9-49471db09e4a"} {"a":"2f46fb30-f39c-4d6a-a08a-5b4bb32c0e5c"}`, `{"a":"9a340ff5a5f84c4a"} {"a":"a16febd05a2745c7"} {"a":"352e3637a5084af8"}`, "red replace/a format"},
		"an identifier that no longer is one":  {`{"a":"25879fc4f5bb4608a865"} {"a":"bc40d7295275bf3cabcc"} {"a":"2f46fb30f39cbd6aacfa"}`, `{"a":"9a340ff5a5f84c4abbbb"} {"a":"9a340ff5a5f84c4abbbb"} {"a":"9a340ff5a5f84c4abbbb"}`, "red replace/a stability"},
		"an identifier that became random":     {`{"a":"9a340ff5a5f84c4abbbb"} {"a":"9a340ff5a5f84c4abbbb"} {"a":"9a340ff5a5f84c4abbbb"}`, `{"a":"25879fc4f5bb4608a865"} {"a":"bc40d7295275bf3cabcc"} {"a":"2f46fb30f39cbd6aacfa"}`, "red replace/a stability"},
		"a set in another order":               {`["a","b","c"] ["c","b","a"] ["b","a","c"]`, `["c","a","b"] ["c","a","b"] ["c","a","b"]`, ""},
		"a set without an element":             {`["a","b","c"] ["c","b","a"] ["b","a","c"]`, `["c","a"] ["a","c"] ["c","a"]`, "red replace length"},
		"a sequence in another order":          {`["a","b","c"] ["a","b","c"] ["a","b","c"]`, `["c","a","b"] ["c","a","b"] ["c","a","b"]`, "red replace order"},
		"two elements in another order":        {`["a","b"] ["a","b"] ["a","b"]`, `["b","a"] ["b","a"] ["b","a"]`, "yellow replace order"},
		"a value of one element of a set":      {`[{"id":1,"x":"a"},{"id":2,"x":"b"}] [{"id":2,"x":"b"},{"id":1,"x":"a"}] [{"id":1,"x":"a"},{"id":2,"x":"b"}]`, `[{"id":1,"x":"a"},{"id":2,"x":"c"}] [{"id":2,"x":"c"},{"id":1,"x":"a"}] [{"id":2,"x":"c"},{"id":1,"x":"a"}]`, "red replace/id=2/x value"},
		"a missing element":                    {`[{"id":1,"x":"a"},{"id":2,"x":"b"},{"id":3,"x":"c"}] [{"id":1,"x":"a"},{"id":2,"x":"b"},{"id":3,"x":"c"}]`, `[{"id":1,"x":"a"},{"id":3,"x":"c"}] [{"id":1,"x":"a"},{"id":3,"x":"c"}]`, "red replace length"},
		"the key of an element":                {`[{"id":1,"x":"a"},{"id":2,"x":"b"}] [{"id":1,"x":"a"},{"id":2,"x":"b"}]`, `[{"id":1,"x":"a"},{"id":7,"x":"b"}] [{"id":1,"x":"a"},{"id":7,"x":"b"}]`, "red replace/*/id value"},
		"a map with other keys in each answer": {`{"s-1aaaaaaa":{"x":1},"s-2bbbbbbb":{"x":1}} {"s-3ccccccc":{"x":1}} {"s-4ddddddd":{"x":1},"s-5eeeeeee":{"x":1}}`, `{"s-6ffffffff":{"x":1}} {"s-7ggggggg":{"x":1}} {"s-8hhhhhhh":{"x":1}}`, ""},
		"a value of such a map":                {`{"s-1aaaaaaa":{"x":1},"s-2bbbbbbb":{"x":1}} {"s-3ccccccc":{"x":1}} {"s-4ddddddd":{"x":1},"s-5eeeeeee":{"x":1}}`, `{"s-6ffffffff":{"x":2}} {"s-7ggggggg":{"x":2}} {"s-8hhhhhhh":{"x":2}}`, "red replace/*/x value"},
		"one run: identifiers are noise":       {`{"a":"25879fc4-f5bb-4608-a865-db48969ea74e"}`, `{"a":"9a340ff5-a5f8-4c4a-ac73-a326879aac65"}`, ""},
		"a run less of three":                  {`{"a":{"b":1}} {"a":{"b":1}} {"a":{"b":1}}`, `{"a":{"b":2}} 5 {"a":{"b":2}}`, "yellow replace type, yellow replace/a/b value"},
		"one run: a word is not":               {`{"a":"x"}`, `{"a":"y"}`, "red replace/a value"},
		"few values, three runs":               {`{"a":"web-1"} {"a":"web-2"} {"a":"web-1"}`, `{"a":"web-3"} {"a":"web-3"} {"a":"web-3"}`, ""},
		"few values, five runs":                {`{"a":"web-1"} {"a":"web-2"} {"a":"web-1"} {"a":"web-1"} {"a":"web-2"}`, `{"a":"web-3"} {"a":"web-3"} {"a":"web-3"} {"a":"web-3"} {"a":"web-3"}`, "red replace/a value"},
		"sentences of another language":        {`{"a":"Ordered_on_9.1.:_$5"} {"a":"Ordered_on_9.1.:_$7"} {"a":"Ordered_on_9.1.:_$9"}`, `{"a":"注文_(9月1日)_¥6"} {"a":"注文_(9月1日)_¥8"} {"a":"注文_(9月1日)_¥7"}`, ""},
	} {
		if got := judged(t, row.baseline, row.fork); got != row.want {
			t.Errorf("%s: %q, not %q", name, got, row.want)
		}
	}
}

// The level is exact for a property with two equally frequent results.
func TestTheLevelIsTheChanceOfTheWorstNoise(t *testing.T) {
	for _, k := range []int{1, 2, 3} {
		red, all := 0, 1<<(2*k)
		for bits := range all {
			side := func(from int) string {
				var runs strings.Builder
				for i := range k {
					fmt.Fprintf(&runs, `{"a":%v} `, bits>>(from+i)&1 == 1)
				}
				return runs.String()
			}
			if strings.HasPrefix(judged(t, side(0), side(k)), "red") {
				red++
			}
		}
		if got := float64(red) / float64(all); got != noise.Level(k, k) {
			t.Errorf("with %d runs of each side %v of all outcomes are red, and the level is %v", k, got, noise.Level(k, k))
		}
	}
}
