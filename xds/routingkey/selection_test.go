package routingkey_test

import (
	"strings"
	"testing"

	"switchyard.dev/xds/routingkey"
)

func TestTheSelectionOfMiddlewares(t *testing.T) {
	all := []string{"override", "trafficwatch"}
	for name, c := range map[string]struct {
		lines []string
		uses  bool
		wrong string
	}{
		"nothing":                  {nil, true, ""},
		"only a key":               {[]string{"sd-routing-key=k"}, true, ""},
		"none":                     {[]string{"a=b, sd-traffic = none ,sd-routing-key=k"}, false, ""},
		"none with a property":     {[]string{"sd-traffic=none;p=1"}, false, ""},
		"its name":                 {[]string{"sd-traffic=override"}, true, ""},
		"its name and another":     {[]string{"sd-traffic=trafficwatch+override"}, true, ""},
		"another":                  {[]string{"sd-traffic=trafficwatch"}, false, ""},
		"an unknown name":          {[]string{"sd-traffic=trafficwatch+overide"}, true, `"overide"`},
		"none beside a name":       {[]string{"sd-traffic=none+trafficwatch"}, true, `"none"`},
		"an empty name":            {[]string{"sd-traffic=trafficwatch+"}, true, `""`},
		"another case":             {[]string{"SD-Traffic=none"}, true, ""},
		"no value":                 {[]string{"sd-traffic="}, true, ""},
		"not decoded":              {[]string{"sd-traffic=%6eone"}, true, `"%6eone"`},
		"twice: the last":          {[]string{"sd-traffic=override", "sd-traffic=none"}, false, ""},
		"twice in one line":        {[]string{"sd-traffic=none, sd-traffic=override"}, true, ""},
		"a value that is too long": {[]string{"sd-traffic=" + strings.Repeat("n", routingkey.MaxLength)}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			uses, wrong := routingkey.Selects(headers{"baggage": c.lines}.lines, "override", all)
			if uses != c.uses || !strings.Contains(wrong, c.wrong) || (wrong == "") != (c.wrong == "") {
				t.Errorf("uses %v, wrong %q", uses, wrong)
			}
		})
	}
}
