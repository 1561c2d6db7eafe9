package unread_test

import (
	"io"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/crypto/ssh"
)

// sends sends data on a client's channel as if it were that with another number at the proxy.
func sends(c *channel, number uint32, data []byte) error {
	to := (*uint32)(unsafe.Pointer(reflect.ValueOf(c.client).Elem().FieldByName("remoteId").UnsafeAddr())) //nolint:gosec // no client of the library sends this
	own := *to
	*to = number
	defer func() { *to = own }()
	_, err := c.client.Write(data)
	return err
}

// TestUndecidedChannelsKeepNothing pins what Budget assumes of the SSH library: what a client sends on
// a channel that is not accepted yet is dropped, and on one that was rejected it ends the connection.
func TestUndecidedChannelsKeepNothing(t *testing.T) {
	p := newProxy(t, 0)
	s := p.session("ada")
	first := s.open("the channel with number 0")
	opened := make(chan ssh.Channel, 1)
	go func() {
		c, requests, err := s.client.OpenChannel("direct-tcpip", nil)
		if err == nil {
			go ssh.DiscardRequests(requests)
		}
		opened <- c
	}()
	undecided := <-s.opens // its number is 1
	p.must(sends(first, 1, content(64<<10)))
	_, err := first.client.Write([]byte("x"))
	p.must(err)
	_, err = io.ReadFull(first.server, make([]byte, 1)) // then the data sent before has arrived
	p.must(err)
	accepted, requests, err := undecided.Accept()
	p.must(err)
	go ssh.DiscardRequests(requests)
	client := <-opened
	_, err = client.Write([]byte("after"))
	p.must(err)
	p.must(client.CloseWrite())
	if got, err := io.ReadAll(accepted); err != nil || string(got) != "after" {
		t.Errorf("of an accepted channel %d bytes are read, %v", len(got), err)
	}

	go func() { _, _, _ = s.client.OpenChannel("direct-tcpip", nil) }() // it is rejected
	p.must((<-s.opens).Reject(ssh.Prohibited, ""))                      // its number is 2
	_ = sends(first, 2, content(64<<10))                                // the connection may have ended
	ended := make(chan error, 1)
	go func() { ended <- s.client.Wait() }()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("data of a rejected channel does not end the connection")
	}
}
