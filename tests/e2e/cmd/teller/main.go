// Command teller responds to every request with its identity: its sandbox, its version and
// container, the port of the request, and the content of files. Tests on a real cluster fork it to
// see which workload serves a request.
//
//	teller :8080 :9090      listens on these addresses
//	VERSION, CONTAINER      the identity in its responses
//	FILES                   files to read for each response, separated by commas
//
// At /chain it responds with the text CONTAINER, or "fork of CONTAINER" in a sandbox, followed by
// the response of the URL NEXT, to which it forwards the request's baggage.
package main

import (
	"log/slog"
	"net/http"
	"os"
	"time"
)

// patience is how long a machine may stand still: what tests measure is who answers, not when.
const patience = time.Minute

func main() {
	failed := make(chan error)
	handler := http.NewServeMux()
	handler.HandleFunc("/", respond)
	handler.Handle("/chain", newChain())
	for _, address := range os.Args[1:] {
		server := &http.Server{
			Addr:              address,
			Handler:           handler,
			ReadHeaderTimeout: patience,
			WriteTimeout:      patience,
		}
		go func() { failed <- server.ListenAndServe() }()
	}
	slog.Error("cannot serve", "error", <-failed)
	os.Exit(1)
}
