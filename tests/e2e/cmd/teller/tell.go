package main

import (
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
)

// answer is the response to a request.
type answer struct {
	Sandbox   string            `json:"sandbox"`
	Version   string            `json:"version"`
	Container string            `json:"container"`
	Port      string            `json:"port"`
	Files     map[string]string `json:"files"`
}

// respond handles one request.
func respond(w http.ResponseWriter, r *http.Request) {
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
