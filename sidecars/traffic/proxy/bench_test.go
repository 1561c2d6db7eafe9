package proxy_test

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/capture"
	"switchyard.dev/sidecars/traffic/parse"
	"switchyard.dev/sidecars/traffic/proxy"
	"switchyard.dev/tests/port"
)

// copying copies the bytes of connections to an address, and nothing else.
func copying(b *testing.B, to string) string {
	l := listen(b)
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				b.Error(err)
				return
			}
			for _, pair := range [][2]net.Conn{{from, server}, {server, from}} {
				go func() {
					defer pair[1].Close()
					for buffer := make([]byte, 32<<10); ; {
						n, err := pair[0].Read(buffer)
						if _, failed := pair[1].Write(buffer[:n]); err != nil || failed != nil {
							return
						}
					}
				}()
			}
		}
	}()
	return l.Addr().String()
}

// recorded passes connections to an address on, and records them.
func recorded(b *testing.B, to string) string {
	listening := port.Of(b)
	var r *capture.Recorder
	r = capture.New("bench", func(f capture.Finished) { r.Delivered(f) })
	at := []*trafficv1.Port{{Application: 80, Listening: uint32(listening)}}
	if err := r.Set([]*trafficv1.Capture{{Uid: "bench", Name: "bench", Sample: 1, BodyBytes: 64 << 10, Ports: at}}); err != nil {
		b.Fatal(err)
	}
	p := &proxy.Proxy{Observer: func(l int32) parse.Observer { return r.Observer(l) }, Logger: slog.New(slog.DiscardHandler)}
	b.Cleanup(p.Close)
	if err := p.Listen(proxy.Port{Application: 80, Listening: int32(listening), To: to}); err != nil {
		b.Fatal(err)
	}
	return (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: listening}).String()
}

// BenchmarkRoundTrip is a request and its answer, without bodies and with 4 KiB: straight to the application, through a copy of bytes, and
// recorded.
func BenchmarkRoundTrip(b *testing.B) {
	for name, size := range map[string]int{"headers": 0, "4KiB": 4 << 10} {
		body := strings.Repeat("x", size)
		headers := "Content-Type: text/plain\r\nContent-Length: " + fmt.Sprint(size) + "\r\n\r\n" + body
		request := "POST /orders/1234?expand=items HTTP/1.1\r\nHost: customer.shop:8080\r\nUser-Agent: bench\r\nAccept: */*\r\n" +
			"traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\nbaggage: userId=alice,sd-routing-key=k1\r\nAuthorization: Bearer x\r\n" + headers
		response := "HTTP/1.1 200 OK\r\nDate: Tue, 01 Dec 2026 00:00:00 GMT\r\n" + headers
		for way, address := range map[string]func(*testing.B, string) string{
			"bare": func(_ *testing.B, to string) string { return to }, "copied": copying, "recorded": recorded,
		} {
			b.Run(name+"/"+way, func(b *testing.B) {
				app := listen(b)
				go func() {
					c, err := app.Accept()
					if err != nil {
						return
					}
					defer c.Close()
					for in := make([]byte, len(request)); ; {
						if _, err := io.ReadFull(c, in); err != nil {
							return
						}
						_, _ = io.WriteString(c, response)
					}
				}()
				c, err := net.Dial("tcp", address(b, app.Addr().String()))
				if err != nil {
					b.Fatal(err)
				}
				defer c.Close()
				b.ReportAllocs()
				in := make([]byte, len(response))
				for b.Loop() {
					_, _ = io.WriteString(c, request)
					if _, err := io.ReadFull(c, in); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
