package ports_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"switchyard.dev/sidecars/traffic/ports"
)

func TestListening(t *testing.T) {
	for name, c := range map[string]struct {
		application, taken []int32
		want               string
	}{
		"one":                     {[]int32{8080}, nil, "map[8080:25800]"},
		"two that would be one":   {[]int32{8080, 8592}, nil, "map[8080:25800 8592:25801]"},
		"a port that is taken":    {[]int32{8080}, []int32{25800, 25801}, "map[8080:25802]"},
		"an application's own":    {[]int32{8080, 25800}, nil, "map[8080:25801 25800:25600]"},
		"none":                    {nil, []int32{80}, "map[]"},
		"the end of the range":    {[]int32{511, 1023}, nil, "map[511:25911 1023:25400]"},
		"duplicates, any order":   {[]int32{9090, 8080, 9090}, []int32{8080, 8080}, "map[8080:25800 9090:25786]"},
		"the highest":             {[]int32{65535}, nil, "map[65535:25911]"},
		"ports that are declared": {[]int32{8080}, []int32{8080, 9090}, "map[8080:25800]"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := fmt.Sprint(ports.Listening(c.application, c.taken)); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestListeningPortsAreFreeAndDistinct(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		port := rapid.OneOf(rapid.Int32Range(1, 65535), rapid.Int32Range(ports.First-2, ports.First+ports.Count+1))
		application, taken := rapid.SliceOfN(port, 0, 40).Draw(t, "application"), rapid.SliceOfN(port, 0, 200).Draw(t, "taken")
		got := ports.Listening(application, taken)
		seen := map[int32]bool{}
		for p, l := range got {
			if seen[l] || slices.Contains(taken, l) || slices.Contains(application, l) || l < ports.First || l >= ports.First+ports.Count {
				t.Fatalf("port %d has %d", p, l)
			}
			seen[l] = true
		}
		for _, p := range application {
			if got[p] == 0 {
				t.Fatalf("port %d has none", p)
			}
		}
		slices.Reverse(application)
		if again := ports.Listening(application, taken); !maps.Equal(again, got) {
			t.Fatalf("in another order %v, not %v", again, got)
		}
	})
}
