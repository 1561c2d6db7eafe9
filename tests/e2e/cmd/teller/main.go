// Command teller answers every request with what it is: the sandbox it runs for,
// its version and container, the port that was asked, and what it read from files.
// Tests on a real cluster fork it and see who answers where.
//
//	teller :8080 :9090      listens on these addresses
//	VERSION, CONTAINER      what it says of itself
//	FILES                   files to read for each answer, separated by commas
package main

import (
	"log/slog"
	"net/http"
	"os"
	"time"
)

func main() {
	failed := make(chan error)
	for _, address := range os.Args[1:] {
		server := &http.Server{
			Addr:              address,
			Handler:           http.HandlerFunc(tell),
			ReadHeaderTimeout: 5 * time.Second,
			WriteTimeout:      10 * time.Second,
		}
		go func() { failed <- server.ListenAndServe() }()
	}
	slog.Error("cannot serve", "error", <-failed)
	os.Exit(1)
}
