package server_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// Two pods send four outputs each, of which only the first byte comes, again and again: a third pod
// is served at once.
func TestASlowOutputTakesNoPlaceOfOthers(t *testing.T) {
	s := newSite(t)
	honest, mine := s.pod("honest"), s.lifecycle("mine")
	s.keeps(mine, "make.url", canary)
	s.says(mine, s.running(mine, "use", honest))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(s.ca))
	ctx, stop := context.WithCancel(t.Context())
	var sent atomic.Int32
	var all []<-chan bool
	for i := range 2 {
		slow, theirs := s.pod(fmt.Sprint("slow-", i)), s.lifecycle(fmt.Sprint("theirs-", i))
		s.says(theirs, s.running(theirs, "make", slow))
		request := fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 1000\r\n\r\nx", output(theirs, "make", "url"), s.token(slow))
		for range 4 {
			all = append(all, background(func() bool {
				for ctx.Err() == nil {
					conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}}).DialContext(ctx, "tcp", s.main.Address())
					if err != nil {
						continue
					}
					end := context.AfterFunc(ctx, func() { _ = conn.Close() })
					if _, err := conn.Write([]byte(request)); err == nil {
						sent.Add(1)
						if answer, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
							_ = answer.Body.Close()
						}
					}
					end()
					_ = conn.Close()
				}
				return true
			}))
		}
	}
	defer func() {
		stop()
		for _, one := range all {
			<-one
		}
	}()
	s.Eventually("outputs are under way", func() error {
		if sent.Load() < 8 {
			return fmt.Errorf("%d", sent.Load())
		}
		return nil
	})
	token := s.token(honest)
	for range 20 {
		if status, reason, text := s.ask("GET", assignment(mine, "use"), token, strings.NewReader("")); status != 200 {
			t.Fatalf("an honest pod is answered %d %s: %.200s", status, reason, text)
		}
	}
}
