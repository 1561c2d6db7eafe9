//go:build !linux

package inbound

import (
	"net"
	"time"
)

// idleFor returns 0: how long a connection is idle is known on Linux alone.
func idleFor(net.Conn) time.Duration { return 0 }
