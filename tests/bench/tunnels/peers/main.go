// Command peers carries connections through remotedialer, as the other programs of the benchmark do
// through theirs. It is a module of its own, with the Go version that remotedialer requires, and pins
// konnectivity beside it.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/sirupsen/logrus"
)

func main() {
	server := flag.String("server", "", "be the server, at an address for clients")
	entrance := flag.String("entrance", "", "with -server: address whose connections are forwarded")
	to := flag.String("to", "", "with -server: where to")
	client := flag.String("client", "", "be the client of the server at an address")
	cert := flag.String("cert", "", "file of the server's certificate")
	key := flag.String("key", "", "file of its key")
	flag.Parse()
	logrus.SetOutput(io.Discard)
	run := func() error { return serve(*server, *entrance, *to, *cert, *key) }
	if *client != "" {
		run = func() error { return connect(*client, *cert) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}
