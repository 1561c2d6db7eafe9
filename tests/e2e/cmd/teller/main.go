// Command teller answers every request with what it is: the sandbox it runs for,
// its version and container, the port that was asked, and what it read from files.
// Tests on a real cluster fork it and see who answers where.
//
//	teller :8080 :9090      listens on these addresses
//	VERSION, CONTAINER      what it says of itself
//	FILES                   files to read for each answer, separated by commas
package main

import (
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// answer is what is told.
type answer struct {
	Sandbox   string            `json:"sandbox"`
	Version   string            `json:"version"`
	Container string            `json:"container"`
	Port      string            `json:"port"`
	Files     map[string]string `json:"files"`
}

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

// tell answers one request.
func tell(w http.ResponseWriter, r *http.Request) {
	a := answer{
		Sandbox: os.Getenv("SIGNADOT_SANDBOX_NAME"), Version: os.Getenv("VERSION"), Container: os.Getenv("CONTAINER"),
		Files: map[string]string{},
	}
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		_, a.Port, _ = net.SplitHostPort(local.String())
	}
	for _, name := range strings.Split(os.Getenv("FILES"), ",") {
		if name == "" {
			continue
		}
		content, err := os.ReadFile(name)
		if err != nil {
			content = []byte(err.Error())
		}
		a.Files[name] = string(content)
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(a); err != nil {
		slog.Warn("the caller went away", "error", err)
	}
}
