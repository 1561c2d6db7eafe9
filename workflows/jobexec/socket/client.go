package socket

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Client sends requests to an executor. It is safe for concurrent use. Errors are a *Refusal, or of the connection:
// then it is unknown whether the request arrived, and the same one can be sent again.
type Client struct{ http *http.Client }

// NewClient returns a client of the executor at a socket. It connects with the first request.
func NewClient(path string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
	return &Client{&http.Client{Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: maxIdle, MaxResponseHeaderBytes: maxHeader},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

const (
	maxIdle   = 8
	maxHeader = 16 << 10
	maxAnswer = 64 << 10 // without output and files
)

// Executor returns the state of the executor.
func (c *Client) Executor(ctx context.Context) (Executor, error) {
	return call[Executor](ctx, c, http.MethodGet, "/v1/executor", nil)
}

// Begin begins an execution, or returns the status of that one if this executor has begun it.
func (c *Client) Begin(ctx context.Context, ref Ref, r Request) (Status, error) {
	return call[Status](ctx, c, http.MethodPut, ref.path(), r)
}

// Stop ends an execution, and returns at once. One that has not begun never begins.
func (c *Client) Stop(ctx context.Context, ref Ref) (Status, error) {
	return call[Status](ctx, c, http.MethodPost, ref.path()+"/stop", nil)
}

// Status returns the status of an execution. It waits for a version that is not after, for 20 s at most.
func (c *Client) Status(ctx context.Context, ref Ref, after uint64) (Status, error) {
	return call[Status](ctx, c, http.MethodGet, fmt.Sprintf("%s?after=%d", ref.path(), after), nil)
}

// Delete forgets an execution that has ended, with its output, so that another can begin. It succeeds if the executor does not
// know it.
func (c *Client) Delete(ctx context.Context, ref Ref) error {
	_, err := call[struct{}](ctx, c, http.MethodDelete, ref.path(), nil)
	return err
}

// Chunk is a part of a stream.
type Chunk struct {
	// Offset is that of the first byte. It is beyond the requested one if bytes are lost.
	Offset uint64
	Data   []byte
	// End reports whether the stream ends with this part.
	End bool
}

// Output acknowledges the bytes of a stream before offset, and returns those from there on, in the memory of into if
// it is large enough (MaxChunk). It waits for the first byte, for 20 s at most.
func (c *Client) Output(ctx context.Context, ref Ref, stream Stream, offset uint64, into []byte) (Chunk, error) {
	answer, err := c.send(ctx, http.MethodGet, fmt.Sprintf("%s/%s?offset=%d", ref.path(), stream, offset), nil)
	if err != nil {
		return Chunk{}, err
	}
	defer answer.Body.Close()
	at, err := strconv.ParseUint(answer.Header.Get(HeaderOffset), 10, 64)
	if err != nil || at < offset {
		return Chunk{}, fmt.Errorf("the executor's response has offset %q, not %d or more", answer.Header.Get(HeaderOffset), offset)
	}
	data := bytes.NewBuffer(into[:0])
	if _, err := io.Copy(data, io.LimitReader(answer.Body, MaxChunk+1)); err != nil {
		return Chunk{}, err
	}
	if data.Len() > MaxChunk {
		return Chunk{}, fmt.Errorf("the executor's response has more than %d bytes of output", MaxChunk)
	}
	return Chunk{Offset: at, Data: data.Bytes(), End: answer.Header.Get(HeaderEnd) == "true"}, nil
}

// File opens a file of the main container. A path that is not absolute begins at the working directory of scripts.
// Reading fails with io.ErrUnexpectedEOF if the file has become shorter than size. The caller closes it.
func (c *Client) File(ctx context.Context, path string) (content io.ReadCloser, size int64, err error) {
	answer, err := c.send(ctx, http.MethodGet, "/v1/file?path="+url.QueryEscape(path), nil)
	if err != nil {
		return nil, 0, err
	}
	if answer.ContentLength < 0 {
		return nil, 0, errors.Join(errors.New("the executor's response has a file without its size"), answer.Body.Close())
	}
	return answer.Body, answer.ContentLength, nil
}

// path returns the path of requests for an execution.
func (r Ref) path() string {
	return fmt.Sprintf("/v1/executions/%s/%d", url.PathEscape(r.Job), r.Execution)
}

// call sends a request and reads the answer.
func call[T any](ctx context.Context, c *Client, method, path string, body any) (to T, err error) {
	answer, err := c.send(ctx, method, path, body)
	if err != nil {
		return to, err
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(&to); err != nil {
		return to, fmt.Errorf("read the executor's response to %s: %w", path, err)
	}
	return to, nil
}

// send sends a request. The caller closes the body of the answer.
func (c *Client) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	content := []byte(nil)
	if body != nil {
		var err error
		if content, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://executor"+path, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("connect to the executor of the main container: %w", err)
	}
	if answer.StatusCode/100 == 2 {
		return answer, nil
	}
	defer answer.Body.Close()
	var why Refusal
	err = json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(&why)
	if err != nil || strings.TrimSpace(why.Reason) == "" {
		return nil, fmt.Errorf("the executor's response to %s has status %d", path, answer.StatusCode)
	}
	return nil, &why
}
