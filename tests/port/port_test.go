package port

import (
	"net"
	"strconv"
	"testing"
)

func TestAPortThatIsTakenIsNotFree(t *testing.T) {
	port, err := Free()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.2", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := listen(port, []string{"127.0.0.1"}); err != nil {
		t.Errorf("at another address: %v", err)
	}
	if listen(port, []string{"127.0.0.1", "127.0.0.2"}) == nil {
		t.Error("a port is called free that is taken at one of two addresses")
	}
}

func TestAFreePortIsNotOneThatConnectionsTake(t *testing.T) {
	for range 100 {
		if port, err := Free(); err != nil || port < lowest || port >= above {
			t.Fatalf("port %d, %v", port, err)
		}
	}
}
