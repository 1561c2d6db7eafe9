package suites

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// ServeTCP is the peer of TCP, until the listener is closed. The first line of a connection
// selects its behaviour:
//
//	echo         sends back all that comes, that line too, and ends when the client has
//	end NAME     ends its own side, and reads until the client ends
//	count NAME   answers with the line, and reads until the client ends
//	abort        ends with a reset
//	saw NAME     returns how a connection of that name has ended
//
// A client that sends nothing for two seconds receives a greeting.
func ServeTCP(l net.Listener) {
	s := &tcpServer{ended: map[string]chan string{}}
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go s.serve(c.(*net.TCPConn)) //nolint:forcetypeassert // of a TCP listener
	}
}

type tcpServer struct {
	mu    sync.Mutex
	ended map[string]chan string
}

// ending returns the channel for the ending of a connection of that name.
func (s *tcpServer) ending(name string) chan string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended[name] == nil {
		s.ended[name] = make(chan string, 1)
	}
	return s.ended[name]
}

func (s *tcpServer) serve(c *net.TCPConn) {
	defer c.Close()
	greeting := time.AfterFunc(2*time.Second, func() { _, _ = io.WriteString(c, "hello\n") })
	read := bufio.NewReader(c)
	line, err := read.ReadString('\n')
	greeting.Stop()
	if err != nil {
		return
	}
	what, name, _ := strings.Cut(strings.TrimSpace(line), " ")
	switch what {
	case "echo":
		_, _ = io.WriteString(c, line)
		_, _ = io.Copy(c, read)
	case "end":
		_ = c.CloseWrite()
		s.ending(name) <- count(read)
	case "count":
		_, _ = io.WriteString(c, line)
		s.ending(name) <- count(read)
	case "abort":
		_ = c.SetLinger(0)
	case "saw":
		said := "nothing"
		select {
		case said = <-s.ending(name):
		case <-time.After(5 * time.Second):
		}
		_, _ = io.WriteString(c, said+"\n")
	}
}

func count(r io.Reader) string {
	n, err := io.Copy(io.Discard, r)
	if err == nil {
		err = io.EOF
	}
	return fmt.Sprintf("%d bytes then %s", n, ending(err))
}
