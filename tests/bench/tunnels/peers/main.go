// Command peers carries connections through remotedialer, for the comparison with the link. It is a module
// of its own, with the Go version that remotedialer requires, and pins konnectivity too.
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
