// Package muxes compares the multiplexers that a tunnel could use.
package muxes

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	hashicorp "github.com/hashicorp/yamux"
	"github.com/libp2p/go-yamux/v5"
	"github.com/quic-go/quic-go"
	"golang.org/x/net/http2"

	"switchyard.dev/tests/bench/tunnels/lab"
)

// frame is the size of frames of go-yamux.
var frame uint

// window is what each multiplexer may have on the way.
const window = 16 << 20

// ends is a stream: the workstation's end and the proxy's, and how to end all of it.
type ends struct {
	near, far io.ReadWriter
	close     func()
}

// muxes are the ways to have a stream, by name.
var muxes = []struct {
	name string
	open func(*lab.Lab, *identity) (ends, error)
}{
	{"tcp", rawTCP},
	{"tls", overTLS},
	{"yamux", overYamux},
	{"go-yamux", overGoYamux},
	{"http2", overHTTP2},
	{"quic", overQUIC},
}

func rawTCP(l *lab.Lab, _ *identity) (ends, error) {
	near, far, err := l.TCP()
	return ends{near, far, func() { near.Close(); far.Close() }}, err
}

func overTLS(l *lab.Lab, id *identity) (ends, error) {
	near, far, err := l.TCP()
	if err != nil {
		return ends{}, err
	}
	client, server := tls.Client(near, id.client("h2")), tls.Server(far, id.server("h2"))
	done := make(chan error, 1)
	go func() { done <- server.Handshake() }()
	err = errors.Join(client.Handshake(), <-done)
	return ends{client, server, func() { near.Close(); far.Close() }}, err
}

func overYamux(l *lab.Lab, id *identity) (ends, error) {
	under, err := overTLS(l, id)
	if err != nil {
		return ends{}, err
	}
	config := hashicorp.DefaultConfig()
	config.MaxStreamWindowSize, config.LogOutput = window, io.Discard
	client, err := hashicorp.Client(under.near.(net.Conn), config)
	if err != nil {
		return ends{}, err
	}
	server, err := hashicorp.Server(under.far.(net.Conn), config)
	if err != nil {
		return ends{}, err
	}
	near, err := client.Open()
	if err != nil {
		return ends{}, err
	}
	far, err := server.Accept()
	return ends{near, far, under.close}, err
}

func overGoYamux(l *lab.Lab, id *identity) (ends, error) {
	under, err := overTLS(l, id)
	if err != nil {
		return ends{}, err
	}
	config := yamux.DefaultConfig()
	config.MaxStreamWindowSize, config.LogOutput = window, io.Discard
	config.ReadBufSize, config.MaxMessageSize = 16<<10, uint32(frame)
	client, err := yamux.Client(under.near.(net.Conn), config, nil)
	if err != nil {
		return ends{}, err
	}
	server, err := yamux.Server(under.far.(net.Conn), config, nil)
	if err != nil {
		return ends{}, err
	}
	near, err := client.Open(context.Background())
	if err != nil {
		return ends{}, err
	}
	far, err := server.Accept()
	return ends{near, far, under.close}, err
}

// flusher writes a response at once.
type flusher struct {
	http.ResponseWriter
	*http.ResponseController
}

func (f flusher) Write(b []byte) (int, error) {
	n, err := f.ResponseWriter.Write(b)
	return n, errors.Join(err, f.Flush())
}

type both struct {
	io.Reader
	io.Writer
}

func overHTTP2(l *lab.Lab, id *identity) (ends, error) {
	under, err := overTLS(l, id)
	if err != nil {
		return ends{}, err
	}
	served, over := make(chan io.ReadWriter, 1), make(chan struct{})
	server := &http2.Server{MaxUploadBufferPerStream: window, MaxUploadBufferPerConnection: window, MaxReadFrameSize: 64 << 10}
	go server.ServeConn(under.far.(net.Conn), &http2.ServeConnOpts{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_ = control.Flush()
		served <- both{r.Body, flusher{w, control}}
		<-over
	})})
	h1 := &http.Transport{HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: window, MaxReceiveBufferPerConnection: window, MaxReadFrameSize: 64 << 10}}
	h2, err := http2.ConfigureTransports(h1)
	if err != nil {
		return ends{}, err
	}
	client, err := h2.NewClientConn(under.near.(net.Conn))
	if err != nil {
		return ends{}, err
	}
	body, writer := io.Pipe()
	request, err := http.NewRequest(http.MethodPost, "https://tunnel/", body)
	if err != nil {
		return ends{}, err
	}
	response, err := client.RoundTrip(request)
	if err != nil {
		return ends{}, err
	}
	return ends{both{response.Body, writer}, <-served, func() { close(over); under.close() }}, nil
}

func overQUIC(l *lab.Lab, id *identity) (ends, error) {
	near, err := lab.UDP(l.Near, lab.NearAddress)
	if err != nil {
		return ends{}, err
	}
	far, err := lab.UDP(l.Far, lab.FarAddress)
	if err != nil {
		return ends{}, err
	}
	config := &quic.Config{
		InitialStreamReceiveWindow: 512 << 10, MaxStreamReceiveWindow: window,
		InitialConnectionReceiveWindow: 1 << 20, MaxConnectionReceiveWindow: 2 * window,
		MaxIncomingStreams: 100, MaxIdleTimeout: 10 * time.Second, KeepAlivePeriod: 3 * time.Second,
	}
	listener, err := quic.Listen(far, id.server("tunnel"), config)
	if err != nil {
		return ends{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	client, err := quic.Dial(ctx, near, far.LocalAddr(), id.client("tunnel"), config)
	if err != nil {
		return ends{}, err
	}
	server, err := listener.Accept(ctx)
	if err != nil {
		return ends{}, err
	}
	out, err := client.OpenStreamSync(ctx)
	if err != nil {
		return ends{}, err
	}
	if _, err := out.Write([]byte{0}); err != nil { // the other end sees a stream with its first byte
		return ends{}, err
	}
	in, err := server.AcceptStream(ctx)
	if err != nil {
		return ends{}, err
	}
	_, err = io.ReadFull(in, make([]byte, 1))
	return ends{out, in, func() { near.Close(); far.Close() }}, err
}

// identity is the proxy's certificate, and who trusts it.
type identity struct {
	certificate tls.Certificate
	roots       *x509.CertPool
}

func (id *identity) server(protocol string) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{id.certificate}, NextProtos: []string{protocol}}
}

func (id *identity) client(protocol string) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: id.roots, ServerName: "tunnel", NextProtos: []string{protocol}}
}
