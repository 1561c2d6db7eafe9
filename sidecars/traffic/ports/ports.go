// Package ports maps the ports of a fork's application to those on which its traffic container listens for them while
// something is attached. The controllers that render the container and the target ports of Services, and the container's
// program, use this one function.
package ports

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The range of listening ports. It is below the ports that Linux takes for outgoing connections (32768 and up) and the
// node ports of Kubernetes (30000 and up), and has none of those of service meshes.
const (
	First = 25400
	Count = 512
)

// Listening returns the listening port of each application port. taken are all ports that containers of the pod declare;
// none of them, and no application port, is a listening port. The order and duplicates of both lists do not count. An
// application port for which the range has no free port is missing from the result.
func Listening(application, taken []int32) map[int32]int32 {
	used := map[int32]bool{}
	for _, p := range slices.Concat(application, taken) {
		used[p] = true
	}
	listening := map[int32]int32{}
	for _, p := range slices.Compact(slices.Sorted(slices.Values(application))) {
		for i := range int32(Count) {
			if l := First + (p+i)%Count; !used[l] {
				used[l], listening[p] = true, l
				break
			}
		}
	}
	return listening
}

// Format returns the map as a setting, such as "8080=25800,9090=25786".
func Format(listening map[int32]int32) string {
	var all []string
	for _, p := range slices.Sorted(maps.Keys(listening)) {
		all = append(all, fmt.Sprintf("%d=%d", p, listening[p]))
	}
	return strings.Join(all, ",")
}

// Parse reads what Format returns. The empty text has no ports.
func Parse(text string) (map[int32]int32, error) {
	listening := map[int32]int32{}
	for pair := range strings.SplitSeq(text, ",") {
		if text == "" {
			break
		}
		application, own, _ := strings.Cut(pair, "=")
		p, wrong := strconv.ParseUint(application, 10, 16)
		l, also := strconv.ParseUint(own, 10, 16)
		if wrong != nil || also != nil || p == 0 || l == 0 {
			return nil, fmt.Errorf("ports %q: %q is not like 8080=25800, an application port and its listening port", text, pair)
		}
		listening[int32(p)] = int32(l)
	}
	return listening, nil
}
