package keeper_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Clients that send exactly the given bytes and fields. Go's own would trim, check and reorder
// them.

// reply is the response to one request. A request that was refused with its stream, or with its
// connection, has no status.
type reply struct {
	Status int
	Header http.Header
	Body   string
}

// fieldsOfGet are the fields of a GET on the wire of HTTP/2, before more of them.
func fieldsOfGet(path string, more ...[2]string) [][2]string {
	return append([][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "customer"}, {":path", path}}, more...)
}

// linesOfGet is a GET on the wire of HTTP/1.1.
func linesOfGet(path string, more ...[2]string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "GET %s HTTP/1.1\r\nHost: customer\r\n", path)
	for _, line := range more {
		fmt.Fprintf(&b, "%s: %s\r\n", line[0], line[1])
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

// overHTTP1 sends requests one behind the other on one connection, without
// waiting for answers, and returns the answers. They end early where the other
// side ends the connection.
func overHTTP1(address string, requests [][]byte) ([]reply, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	deadline(c)
	go func() { _, _ = c.Write(bytes.Join(requests, nil)) }()
	reader := bufio.NewReader(c)
	var replies []reply
	for range requests {
		response, err := http.ReadResponse(reader, nil)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return replies, nil
		}
		if err != nil {
			return replies, err
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil {
			return replies, err
		}
		replies = append(replies, reply{Status: response.StatusCode, Header: response.Header, Body: string(body)})
	}
	return replies, nil
}

// overHTTP2 sends requests, given by their fields, as streams of one connection
// and returns the answers, in the order of the requests.
func overHTTP2(address string, requests [][][2]string) ([]reply, error) {
	return bodiesOverHTTP2(address, requests, make([]string, len(requests)))
}

// bodiesOverHTTP2 sends a body with each request; "" ends a stream with its
// headers.
func bodiesOverHTTP2(address string, requests [][][2]string, bodies []string) ([]reply, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	deadline(c)
	out := bufio.NewWriter(c)
	if _, err := out.WriteString(http2.ClientPreface); err != nil {
		return nil, err
	}
	framer := http2.NewFramer(out, bufio.NewReader(c))
	framer.AllowIllegalWrites = true
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if err := framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 24}); err != nil {
		return nil, err
	}
	if err := framer.WriteWindowUpdate(0, 1<<30); err != nil {
		return nil, err
	}
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i, fields := range requests {
		block.Reset()
		for _, f := range fields {
			if err := encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
				return nil, err
			}
		}
		if err := writeHeaders(framer, uint32(2*i+1), block.Bytes(), bodies[i] == ""); err != nil {
			return nil, err
		}
		if bodies[i] != "" {
			if err := framer.WriteData(uint32(2*i+1), true, []byte(bodies[i])); err != nil {
				return nil, err
			}
		}
	}
	if err := out.Flush(); err != nil {
		return nil, err
	}
	return answersOf(framer, out, len(requests))
}

// writeHeaders writes a header block in as many frames as it takes.
func writeHeaders(framer *http2.Framer, stream uint32, block []byte, end bool) error {
	const most = 16 << 10 // bytes in a frame
	first, rest := block[:min(most, len(block))], block[min(most, len(block)):]
	err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: first, EndStream: end, EndHeaders: len(rest) == 0})
	for err == nil && len(rest) > 0 {
		n := min(most, len(rest))
		err = framer.WriteContinuation(stream, n == len(rest), rest[:n])
		rest = rest[n:]
	}
	return err
}

// answersOf reads until n streams have ended or the connection has.
func answersOf(framer *http2.Framer, out *bufio.Writer, n int) ([]reply, error) {
	replies := make([]reply, n)
	for open := n; open > 0; {
		frame, err := framer.ReadFrame()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return replies, nil
		}
		if err != nil {
			return replies, err
		}
		ended := false
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				if err := errors.Join(framer.WriteSettingsAck(), out.Flush()); err != nil {
					return replies, err
				}
			}
		case *http2.MetaHeadersFrame:
			r := &replies[f.StreamID/2]
			if r.Header == nil {
				r.Header = http.Header{}
			}
			for _, field := range f.Fields {
				if field.Name == ":status" {
					_, _ = fmt.Sscan(field.Value, &r.Status)
				}
				r.Header.Add(field.Name, field.Value)
			}
			ended = f.StreamEnded()
		case *http2.DataFrame:
			replies[f.StreamID/2].Body += string(f.Data())
			ended = f.StreamEnded()
		case *http2.RSTStreamFrame:
			ended = true
		case *http2.GoAwayFrame:
			return replies, nil
		}
		if ended {
			open--
		}
	}
	return replies, nil
}
