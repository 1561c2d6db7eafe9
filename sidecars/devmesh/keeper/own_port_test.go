package keeper_test

import (
	"io"
	"net"
	"strconv"
	"testing"
	"time"

	"switchyard.dev/sidecars/devmesh"
)

// Two requests at once were enough to have Envoy connect to itself until it had no more
// files, and then end with a segmentation fault.
func TestAConnectionToTheListenerItselfIsClosed(t *testing.T) {
	r := start(t)
	for name, words := range map[string]string{
		"HTTP":           "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"HTTP/2":         "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
		"HTTP/1.0":       "GET / HTTP/1.0\r\n\r\n",
		"something else": "hello\n",
		"TLS":            "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00",
		"nothing":        "",
	} {
		for range 2 {
			c, err := net.Dial("tcp", net.JoinHostPort(r.pod.IP.String(), strconv.Itoa(devmesh.ListenerPort)))
			r.must(err)
			defer c.Close()
			_, err = io.WriteString(c, words)
			r.must(err)
			r.must(c.SetReadDeadline(time.Now().Add(patience)))
			if got, err := io.ReadAll(c); len(got) > 0 || isTimeout(err) {
				t.Errorf("%s: answered %.60q, %v; want the connection's end", name, got, err)
			}
		}
	}
	r.expect("baseline", 8080)
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error)
	return ok && timeout.Timeout()
}
