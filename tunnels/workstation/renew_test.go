package workstation_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/workstation"
)

// changing has a configuration return one token after the other, "" for an error, and then the last one.
func changing(config *workstation.Config, tokens ...string) (reads *atomic.Int32) {
	reads = &atomic.Int32{}
	config.RenewEvery = time.Millisecond
	config.Token = func(context.Context, bool) (string, error) {
		token := tokens[min(int(reads.Add(1)), len(tokens))-1]
		if token == "" {
			return "", errors.New("the source is away")
		}
		return token, nil
	}
	return reads
}

func TestANewerTokenIsSent(t *testing.T) {
	p := newProxy(t, nil)
	p.renews = true
	config := p.config()
	reads := changing(&config, "good", "good", "", "newer")
	connected(t, config)
	s := p.nth(1)
	select {
	case newer := <-s.Renewals():
		if newer.GetToken() != "newer" || s.hello.GetToken() != "good" {
			t.Errorf("after %q the proxy received %q", s.hello.GetToken(), newer.GetToken())
		}
	case <-time.After(time.Minute):
		t.Fatal("no token was sent")
	}
	before := reads.Load()
	wait.Holds(t, "the token is read again", func() bool { return reads.Load() > before+20 })
	if len(s.Renewals()) != 0 {
		t.Errorf("the same token was sent again: %q", (<-s.Renewals()).GetToken())
	}
}

// A proxy of an earlier release ends the session at a message that it does not know.
func TestATokenIsNotSentToAnEarlierProxy(t *testing.T) {
	p := newProxy(t, nil)
	config := p.config()
	reads := changing(&config, "good", "newer")
	w := connected(t, config)
	list := follows(t, w)
	list <- []workstation.Workload{cart("127.0.0.1:1")} // the declaration follows whatever renew would have sent
	s := p.nth(1)
	<-s.declared
	if len(s.Renewals()) != 0 || reads.Load() != 1 {
		t.Errorf("%d tokens were sent, and it was read %d times", len(s.Renewals()), reads.Load())
	}
}
