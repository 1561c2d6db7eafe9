package main

import (
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"

	"switchyard.dev/tools/traffic"
)

// chain answers with who answers, one after the other.
type chain struct {
	// self and next are this one and the URL of the one after it; each may be empty.
	self, next string
	client     *http.Client
}

func newChain() chain {
	c := chain{self: os.Getenv("CONTAINER"), next: os.Getenv("NEXT")}
	if os.Getenv("SIGNADOT_SANDBOX_NAME") != "" {
		c.self = "fork of " + c.self
	}
	c.client = &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	return c
}

func (c chain) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := c.self
	if c.next != "" {
		after, err := traffic.Fetch(r.Context(), c.client, c.next, [2]string{"Baggage", strings.Join(r.Header.Values("Baggage"), ",")})
		if err != nil {
			http.Error(w, c.self+": "+err.Error(), http.StatusBadGateway)
			return
		}
		if answer != "" {
			answer += " > "
		}
		answer += string(after)
	}
	if _, err := io.WriteString(w, answer); err != nil {
		slog.Warn("the caller went away", "error", err)
	}
}
