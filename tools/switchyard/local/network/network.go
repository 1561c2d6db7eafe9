// Package network watches the addresses of this machine.
package network

import (
	"context"
	"net"
	"slices"
	"time"
)

// Watch calls moved when the addresses of the machine change, until ctx ends.
func Watch(ctx context.Context, moved func()) {
	last := addresses()
	for tick := time.NewTicker(time.Second); ; {
		select {
		case <-tick.C:
			if now := addresses(); !slices.Equal(now, last) {
				last = now
				moved()
			}
		case <-ctx.Done():
			tick.Stop()
			return
		}
	}
}

func addresses() (out []string) {
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		out = append(out, a.String())
	}
	slices.Sort(out)
	return out
}
