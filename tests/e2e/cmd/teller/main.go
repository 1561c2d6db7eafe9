// Command teller answers every request with what it is: the sandbox it runs for,
// its version and container, the port that was asked, and what it read from files.
// Tests on a real cluster fork it and see who answers where.
//
//	teller :8080 :9090      listens on these addresses
//	VERSION, CONTAINER      what it says of itself
//	FILES                   files to read for each answer, separated by commas
//
// At /chain it answers in text with CONTAINER, or "fork of CONTAINER" in a sandbox, and then
// with what the URL NEXT answers, to which it hands the request's baggage on.
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
	handler.HandleFunc("/", tell)
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
