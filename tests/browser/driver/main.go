// Command driver controls a Chromium for a test, which calls it over its standard input and output (package browser of
// the main module). It is a module of its own, so that the main one needs neither chromedp nor its protocol.
package main

import (
	"io"
	"log/slog"
	"net/rpc"
	"os"
)

func main() {
	b := &Browser{}
	if err := rpc.Register(b); err != nil {
		slog.Error("the driver of the browser ended", "error", err)
		os.Exit(1)
	}
	defer b.close()
	rpc.ServeConn(pipe{os.Stdin, os.Stdout}) // until the test ends the input
}

type pipe struct {
	io.Reader
	io.WriteCloser
}
