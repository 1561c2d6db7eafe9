// Package keytest holds the header forms that every reader of routing keys is
// tested against: the parser of routingkey, and a real proxy.
package keytest

import (
	"maps"
	"strings"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/xds/routingkey"
)

// CustomHeaders are the custom headers that are configured where the forms are
// read.
func CustomHeaders() []string { return []string{"X-Team", "x-other"} }

// Form is one way to write the headers of a request, with the key it has.
type Form struct {
	// Lines are header lines, name and value, in order.
	Lines [][2]string
	// Key is what the request's key is; "" for none.
	Key string
}

// Forms returns header forms that parsers are known to read differently, each named by its
// peculiarity.
func Forms() map[string]Form {
	all := map[string]Form{}
	for _, forms := range []map[string]Form{members(), repeated(), elsewhere()} {
		maps.Copy(all, forms)
	}
	return all
}

// members are about how one member of baggage is written.
func members() map[string]Form {
	return map[string]Form{
		"no header at all":                        {nil, ""},
		"baggage with the key alone":              {b("sd-routing-key=k1"), "k1"},
		"first of several members":                {b("sd-routing-key=k1,a=b"), "k1"},
		"last of several members":                 {b("a=b,sd-routing-key=k1"), "k1"},
		"between members":                         {b("a=b,sd-routing-key=k1,c=d"), "k1"},
		"white space around everything":           {b("a=b , \tsd-routing-key \t= k1 , c=d"), "k1"},
		"with properties":                         {b("sd-routing-key=k1;p=1;q"), "k1"},
		"with white space before a property":      {b("sd-routing-key=k1 ; p=1"), "k1"},
		"a name that ends in Member":              {b("x-sd-routing-key=k1"), ""},
		"a name that begins with Member":          {b("sd-routing-key-x=k1"), ""},
		"our name in the value of another member": {b("a=sd-routing-key=k1"), ""},
		"our name in a property":                  {b("a=b;sd-routing-key=k1"), ""},
		"our name in upper case":                  {b("SD-Routing-Key=k1"), ""},
		"the header's name in upper case":         {[][2]string{{"BAGGAGE", "sd-routing-key=k1"}}, "k1"},
		"a key in upper case stays so":            {b("sd-routing-key=K1"), "K1"},
		"a longer key is another key":             {b("sd-routing-key=k1-evil"), "k1-evil"},
		"a key with an equals sign":               {b("sd-routing-key=k1=x"), "k1=x"},
		"a key with inner white space":            {b("sd-routing-key=k1 x"), "k1 x"},
		"a percent-encoded key is not decoded":    {b("sd-routing-key=k%31"), "k%31"},
		"a quoted key keeps its quotes":           {b(`sd-routing-key="k1"`), `"k1"`},
		"no equals sign":                          {b("sd-routing-key"), ""},
		"no equals sign before the property":      {b("sd-routing-key;a=k1"), ""},
		"an empty value":                          {b("sd-routing-key="), ""},
		"a value of white space":                  {b("sd-routing-key= \t"), ""},
		"an empty value with a property":          {b("sd-routing-key=;a=k1"), ""},
		"a baggage that is no list":               {b("k1"), ""},
		"an empty baggage":                        {b(""), ""},
		"commas only":                             {b(",,,"), ""},
		"empty members around":                    {b(",,sd-routing-key=k1,,"), "k1"},
	}
}

// repeated are about baggage with several members, or much in it.
func repeated() map[string]Form {
	return map[string]Form{
		"twice in baggage: the last":                 {b("sd-routing-key=k1,sd-routing-key=k2"), "k2"},
		"twice in baggage, the last one empty":       {b("sd-routing-key=k1,sd-routing-key="), "k1"},
		"two baggage lines":                          {b("a=b", "sd-routing-key=k1"), "k1"},
		"in each of two baggage lines: the last":     {b("sd-routing-key=k1", "sd-routing-key=k2"), "k2"},
		"another language in another member":         {b("name=Zoë,sd-routing-key=k1"), "k1"},
		"bytes that are not UTF-8 in another member": {b("name=\xff\xfe,sd-routing-key=k1"), "k1"},
		"bytes that are not UTF-8 in the key":        {b("sd-routing-key=\xff\xfe"), "\xff\xfe"},
		"such a key hides another":                   {b("sd-routing-key=k1,sd-routing-key=\xff"), "\xff"},
		"a hundred members":                          {b(strings.Repeat("a=b,", 100) + "sd-routing-key=k1"), "k1"},
		"the longest key":                            {b("sd-routing-key=" + strings.Repeat("k", routingkey.MaxLength-1)), strings.Repeat("k", routingkey.MaxLength-1)},
		"a key that is too long":                     {b("sd-routing-key=" + strings.Repeat("k", routingkey.MaxLength)), ""},
		"the older member name":                      {b("sd-sandbox=k1"), ""},
	}
}

// elsewhere are about tracestate, custom headers, and precedence.
func elsewhere() map[string]Form {
	return map[string]Form{
		"a key that is too long, and a tracestate": {append(b("sd-routing-key="+strings.Repeat("k", routingkey.MaxLength)), ts("sd-routing-key=k2")...), "k2"},
		"tracestate":                                  {ts("sd-routing-key=k1"), "k1"},
		"tracestate after other vendors":              {ts("congo=t61rcWkgMzE,sd-routing-key=k1"), "k1"},
		"tracestate with a semicolon in the value":    {ts("sd-routing-key=k1;p"), "k1;p"},
		"twice in tracestate: the first":              {ts("sd-routing-key=k1,sd-routing-key=k2"), "k1"},
		"twice in tracestate, the first one empty":    {ts("sd-routing-key=,sd-routing-key=k2"), "k2"},
		"two tracestate lines":                        {ts("a=b", "sd-routing-key=k1"), "k1"},
		"baggage before tracestate":                   {append(ts("sd-routing-key=k2"), b("sd-routing-key=k1")...), "k1"},
		"baggage with an empty key, and a tracestate": {append(b("sd-routing-key="), ts("sd-routing-key=k2")...), "k2"},
		"baggage without a key, and a tracestate":     {append(b("a=b"), ts("sd-routing-key=k2")...), "k2"},
		"a custom header":                             {lines("x-team", []string{"k1"}), "k1"},
		"a custom header in other case":               {lines("X-TEAM", []string{"k1"}), "k1"},
		"a custom header is taken whole":              {lines("x-team", []string{"sd-routing-key=k1"}), "sd-routing-key=k1"},
		"a custom header twice":                       {lines("x-team", []string{"k1", "k2"}), ""},
		"a custom header twice, and the next":         {append(lines("x-team", []string{"k1", "k2"}), lines("x-other", []string{"k3"})...), "k3"},
		"a custom header with a comma":                {lines("x-team", []string{"k1,k2"}), ""},
		"an empty custom header, and the next":        {append(lines("x-team", []string{""}), lines("x-other", []string{"k2"})...), "k2"},
		"the first custom header first":               {append(lines("x-other", []string{"k2"}), lines("x-team", []string{"k1"})...), "k1"},
		"tracestate before a custom header":           {append(lines("x-team", []string{"k2"}), ts("sd-routing-key=k1")...), "k1"},
		"a header that is not configured":             {lines("x-unknown", []string{"k1"}), ""},
	}
}

func b(values ...string) [][2]string { return lines(routingkey.Baggage, values) }

func ts(values ...string) [][2]string { return lines(routingkey.Tracestate, values) }

func lines(name string, values []string) [][2]string {
	return lists.Map(values, func(value string) [2]string { return [2]string{name, value} })
}
