package status

import (
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"switchyard.dev/tools/switchyard/show"
)

const (
	// maxNoted bounds the hosts that are remembered.
	maxNoted = 1000
	// Refusals of so many hosts are written at once, and of a further one after each pause.
	atOnce, pause = 10, 10 * time.Second
)

// Refusals returns a function that prints why the cluster rejects an address, once for each host. A
// browser can request hundreds of hosts, so the rate is limited.
func Refusals(out io.Writer) func(host string, port uint16, err error) {
	var mu sync.Mutex
	noted := map[string]bool{}
	limit := rate.NewLimiter(rate.Every(pause), atOnce)
	return func(host string, port uint16, err error) {
		mu.Lock()
		defer mu.Unlock()
		if noted[host] || !limit.Allow() {
			return
		}
		if len(noted) >= maxNoted {
			clear(noted)
		}
		noted[host] = true
		_, _ = io.WriteString(out, show.Line(fmt.Sprintf("note: %s:%d is not reached through the tunnel: %v", host, port, err))+"\n")
	}
}
