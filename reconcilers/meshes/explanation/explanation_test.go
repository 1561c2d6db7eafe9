package explanation

import (
	"slices"
	"testing"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/reconcilers/meshes/keymatch"
)

func TestMeshThatMatchesKeysDifferently(t *testing.T) {
	custom := []string{"x-team", "x-other"}
	for name, tt := range map[string]struct {
		headers [][2]string
		want    []keymatch.Deviation
	}{
		"a key alone":                      {nil, nil},
		"one member":                       {[][2]string{{"Baggage", "a=b, sd-routing-key=k"}}, nil},
		"several members":                  {[][2]string{{"baggage", "sd-routing-key=k;p"}, {"Baggage", " sd-routing-key = l"}}, []keymatch.Deviation{keymatch.SeveralMembers}},
		"several headers":                  {[][2]string{{"baggage", "sd-routing-key=k"}, {"tracestate", "sd-routing-key=l"}}, []keymatch.Deviation{keymatch.SeveralHeaders}},
		"several headers with one key":     {[][2]string{{"baggage", "sd-routing-key=k"}, {"tracestate", "sd-routing-key=k"}, {"X-Team", "k"}}, nil},
		"a configured header":              {[][2]string{{"x-team", "k"}, {"tracestate", "a=b"}, {"x-else", "l"}}, nil},
		"a configured header after a list": {[][2]string{{"X-Team", "l"}, {"baggage", "sd-routing-key=k"}}, []keymatch.Deviation{keymatch.SeveralHeaders}},
		"two configured headers":           {[][2]string{{"x-team", "k"}, {"x-other", "l"}}, []keymatch.Deviation{keymatch.SeveralHeaders}},
		"white space":                      {[][2]string{{"x-team", "k "}}, []keymatch.Deviation{keymatch.WhiteSpace}},
		"white space in a list":            {[][2]string{{"baggage", " sd-routing-key = k "}}, nil},
		"no key, since it has a comma":     {[][2]string{{"x-team", "k,l"}, {"x-other", "k"}}, nil},
	} {
		var headers []*routingv1.Header
		for _, h := range tt.headers {
			headers = append(headers, &routingv1.Header{Name: h[0], Value: h[1]})
		}
		if got := deviations(headers, custom); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
