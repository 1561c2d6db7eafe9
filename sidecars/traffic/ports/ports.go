// Package ports maps the ports of a fork's application to those on which its traffic container listens for them while
// something is attached.
package ports

import "slices"

// The range of listening ports. It is below the ports that Linux takes for outgoing connections (32768 and up) and the
// node ports of Kubernetes (30000 and up), and has none of those of service meshes.
const (
	First = 25400
	Count = 512
)

// Caller in place of a host to which requests are passed on is the address of the client: a sidecar that takes its requests back. Where the
// network hides the addresses of pods it is another one, which proxy.Callers refuse.
const Caller = "caller"

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
