package attack

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"switchyard.dev/tools/traffic"
)

// What the application does at its paths; elsewhere it answers OK.
const (
	floodPath = "/flood" // answers without end
	deafPath  = "/deaf"  // reads nothing of the request's body
	dripPath  = "/drip"  // reads one byte a second
)

const ok = "ok\n"

// pace is how long a byte takes that is read slowly.
const pace = time.Second

// Serve is the application, for HTTP/1 and HTTP/2, until the listener is closed.
func Serve(l net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, ok) })
	mux.HandleFunc(floodPath, func(w http.ResponseWriter, _ *http.Request) {
		piece := make([]byte, 16<<10)
		for {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	})
	mux.HandleFunc(deafPath, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc(dripPath, func(_ http.ResponseWriter, r *http.Request) {
		for tick := time.NewTicker(pace); ; <-tick.C {
			if _, err := r.Body.Read(make([]byte, 1)); err != nil {
				tick.Stop()
				return
			}
		}
	})
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: time.Minute, Protocols: traffic.Protocols(true, true),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			_ = lean(c) // else it holds more
			return ctx
		},
	}
	if err := server.Serve(l); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
