package keeper_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// fewConnections is how many a sidecar takes that may have 1,024 files open.
const fewConnections = 224

// withFewFiles runs a sidecar that may have so many.
func withFewFiles(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.under = []string{"prlimit", "--nofile=1024:1024"}
	r.serveHTTP(r.app(8080), "baseline")
	r.Board.Complete()
	r.serveXDS()
	r.sidecar()
	r.ready()
	r.acked()
	r.logged(fmt.Sprintf(`"connections":%d`, fewConnections), 1)
	return r
}

// Envoy ends with a segmentation fault when it can open no more files, and with it every
// connection of the baseline.
func TestAFloodOfConnectionsLeavesEnvoyItsFiles(t *testing.T) {
	r := withFewFiles(t)
	before := r.envoys()
	for name, words := range map[string]string{"silent": "", "half a request": "GET / HTTP/1.1\r\n", "no HTTP": "hello\n"} {
		var flood []net.Conn
		for range 1500 {
			c, err := net.DialTimeout("tcp", net.JoinHostPort(r.address, "8080"), time.Second)
			if err != nil {
				break // the backlog is full
			}
			flood = append(flood, c)
			_, _ = io.WriteString(c, words)
		}
		time.Sleep(100 * time.Millisecond)
		if now := r.envoys(); now != before {
			t.Fatalf("%s: Envoy was %s and is %s after %d connections", name, before, now, len(flood))
		}
		for _, c := range flood {
			_ = c.Close()
		}
		r.eventually(name+": the baseline is served when they are gone", func() error {
			_, err := r.get(8080)
			return err
		})
	}
}

// Connections that are kept, with nothing going on, make room for others: also where so few
// may be open that they fill no memory.
func TestIdleConnectionsMakeRoomWhereFewFilesMayBeOpen(t *testing.T) {
	r := withFewFiles(t)
	fresh := &http.Transport{DisableKeepAlives: true}
	for words, kept := range map[string]string{"GET / HTTP/1.1\r\nHost: a\r\n\r\n": "kept", "": "silent"} {
		var flood []net.Conn
		for range 2 * fewConnections {
			c, err := net.DialTimeout("tcp", net.JoinHostPort(r.address, "8080"), time.Second)
			if err != nil {
				break
			}
			flood = append(flood, c)
			_, _ = io.WriteString(c, words)
		}
		r.eventually("the baseline is served beside connections that are "+kept, func() error {
			// The next request finds room as well. The first may find it before the flood is
			// whole: each of Envoy's threads accepts from a queue of its own.
			for range 2 {
				if _, err := r.over(fresh, 8080); err != nil {
					return err
				}
				time.Sleep(time.Second / 2)
			}
			return nil
		})
		for _, c := range flood {
			_ = c.Close()
		}
	}
}
