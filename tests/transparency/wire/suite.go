// Package wire is a suite of exchanges written as bytes, over HTTP/1 and HTTP/2: requests that
// clients of any kind can send, and responses that applications of any kind can return.
//
// Each case is one connection. It sends bytes unchanged, reads the response, and then sends one
// more request, to show whether the connection is still usable. The result contains the whole
// response, except the date: two targets are equal when their texts are.
//
// Cases are safe for any server. Those with names that begin with h1-answer request the odd
// responses of Serve, for which other servers return 404; those with h1-echo request the received
// request.
package wire

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"switchyard.dev/tests/transparency/suite"
)

// patience is how long a case waits for what may not come.
const patience = 4 * time.Second

// workers is how many cases run at once.
const workers = 32

// Suite is the suite of bytes.
type Suite struct {
	// Only selects the cases to run; nil for all.
	Only func(name string) bool
	// Alone: no two cases run at once. An application that closes a connection without
	// a word can make another case's request fail, for proxies reuse connections.
	Alone bool
}

var _ suite.Choosy = Suite{}

// Name is wire.
func (Suite) Name() string { return "wire" }

// Just runs these cases alone.
func (Suite) Just(cases []string) suite.Suite {
	return Suite{Alone: true, Only: func(name string) bool { return slices.Contains(cases, name) }}
}

// exchange is one case over either protocol.
type exchange interface {
	run(ctx context.Context, to suite.Target) string
}

// Run runs all cases, many at once.
func (s Suite) Run(ctx context.Context, to suite.Target) (suite.Seen, error) {
	all := cases()
	spoken := speaksH2(ctx, to)
	work := make(chan string)
	var mu sync.Mutex
	var running sync.WaitGroup
	seen := suite.Seen{}
	n := workers
	if s.Alone {
		n = 1
	}
	for range n {
		running.Go(func() {
			for name := range work {
				words := all[name].run(ctx, to)
				mu.Lock()
				seen[name] = words
				mu.Unlock()
			}
		})
	}
	for name := range all {
		if (s.Only == nil || s.Only(name)) && (spoken || !strings.HasPrefix(name, "h2-")) {
			work <- name
		}
	}
	close(work)
	running.Wait()
	seen["h2"] = fmt.Sprint(spoken)
	return seen, ctx.Err()
}

// speaksH2 reports whether the application answers over HTTP/2: then the cases of it
// are run. A proxy's word that it does not is no answer.
func speaksH2(ctx context.Context, to suite.Target) bool {
	words := h2{status: true}.run(ctx, to)
	return words >= "200" && words < "500"
}

// cases returns all of them by name.
func cases() map[string]exchange {
	all := map[string]exchange{}
	for _, group := range []map[string]h1{
		methods(), upgrades(), targets(), versions(), hosts(), values(), folds(), heads(),
		bodies(), chunks(), lengths(), connections(), forwarding(), answered(), echoed(),
	} {
		for name, c := range group {
			all["h1-"+name] = c
		}
	}
	for _, group := range []map[string]h2{methods2(), targets2(), fields2(), heads2(), bodies2()} {
		for name, c := range group {
			all["h2-"+name] = c
		}
	}
	return all
}

// keyLine is the header lines of the target's key and credential, or nothing.
func keyLine(to suite.Target) (lines string) {
	if to.Key != "" {
		lines = "baggage: " + keyMember(to) + "\r\n"
	}
	if to.Credential != "" {
		lines += suite.CredentialHeader + ": " + to.Credential + "\r\n"
	}
	return lines
}

func keyMember(to suite.Target) string { return "sd-routing-key=" + to.Key }
