package suites

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"switchyard.dev/tests/transparency/suite"
)

// Waiting is for answers that come late, or bit by bit.
type Waiting struct {
	// Protocol is h1 or h2.
	Protocol string
	// Events is a path that sends five events within two seconds, and Slow one that takes seconds
	// to answer; either may be empty.
	Events, Slow string
	// Late are paths that answer late.
	Late []string
}

// Name is suite.Suite.
func (Waiting) Name() string { return "waiting" }

// Run is suite.Suite.
func (s Waiting) Run(ctx context.Context, to suite.Target) (suite.Seen, error) {
	seen := suite.Seen{}
	c := newClient(s.Protocol, to)
	defer c.close()
	if s.Events != "" {
		seen[s.Protocol+"/events"] = c.events(ctx, s.Events)
	}
	if s.Slow != "" {
		seen[s.Protocol+"/client leaves"] = c.leaves(ctx, s.Slow)
	}
	for _, path := range s.Late {
		seen[s.Protocol+"/late "+path] = c.exchange(ctx, http.MethodGet, path, nil, nil)
	}
	return seen, ctx.Err()
}

// events counts server-sent events, and reports whether they came while they were made.
func (c client) events(ctx context.Context, path string) string {
	answer, err := c.ask(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return failure(err, c.to)
	}
	defer answer.Body.Close()
	var first, last time.Time
	events := 0
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "event: ") {
			if last = time.Now(); events == 0 {
				first = last
			}
			events++
		}
	}
	came := "all at once"
	if last.Sub(first) > time.Second { // made over two
		came = "one by one"
	}
	return fmt.Sprintf("%s, %d events %s", head(answer), events, came)
}

// leaves closes the connection in the middle of an answer, and sends another request.
func (c client) leaves(ctx context.Context, path string) string {
	gone, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	answer, err := c.ask(gone, http.MethodGet, path, nil, nil)
	if err == nil {
		defer answer.Body.Close()
		_, err = bufio.NewReader(answer.Body).ReadString(0)
	}
	if err == nil || gone.Err() == nil {
		return fmt.Sprintf("ended by itself: %v", err)
	}
	return "then " + c.exchange(ctx, http.MethodHead, path, nil, nil)
}
