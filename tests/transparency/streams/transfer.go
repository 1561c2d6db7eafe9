package streams

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/tools/traffic"
)

// transfer is what one row moves.
type transfer struct {
	// two: over HTTP/2. up: from client to application. far: over the line with a delay.
	two, up, far bool
	// at once is how many bodies move at the same time.
	atOnce int
	bytes  int64
}

// name is that of its figures.
func (t transfer) name(rtt time.Duration) string {
	version, way, trip := "h1", "down", time.Duration(0)
	if t.two {
		version = "h2"
	}
	if t.up {
		way = "up"
	}
	if t.far {
		trip = rtt
	}
	return fmt.Sprintf("streams-%s-%s-%d-at-%s", version, way, t.atOnce, trip)
}

// transfers are all of them.
func transfers(bytes int64) (all []transfer) {
	for _, far := range []bool{false, true} {
		for _, two := range []bool{false, true} {
			for _, up := range []bool{false, true} {
				for _, n := range []int{1, 8} {
					all = append(all, transfer{two: two, up: up, far: far, atOnce: n, bytes: bytes})
				}
			}
		}
	}
	return all
}

// rate moves the bodies over new connections, and returns how many MB/s passed.
func (p *place) rate(ctx context.Context, t transfer) (float64, error) {
	transport := &http.Transport{
		Protocols: traffic.Protocols(!t.two, t.two), MaxConnsPerHost: t.atOnce,
		WriteBufferSize: chunk, ReadBufferSize: chunk, DisableCompression: true,
		HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: window},
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	began := time.Now()
	var all errgroup.Group
	for range t.atOnce {
		all.Go(func() error { return t.one(ctx, client, p.url(t.far)) })
	}
	if err := all.Wait(); err != nil {
		return 0, fmt.Errorf("%s: %w", p.name, err)
	}
	return float64(t.bytes*int64(t.atOnce)) / 1e6 / time.Since(began).Seconds(), nil
}

// one moves one body, and fails unless it came whole.
func (t transfer) one(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"?"+strconv.FormatInt(t.bytes, 10), http.NoBody)
	if t.up {
		request, err = http.NewRequestWithContext(ctx, http.MethodPost, url, &zeros{t.bytes})
	}
	if err != nil {
		return err
	}
	if t.up {
		request.ContentLength = t.bytes
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var got int64
	if t.up {
		var text []byte
		if text, err = io.ReadAll(io.LimitReader(response.Body, chunk)); err == nil {
			got, err = strconv.ParseInt(string(text), 10, 64)
		}
	} else {
		got, err = drain(response.Body)
	}
	if err == nil && (got != t.bytes || response.StatusCode != http.StatusOK) {
		err = fmt.Errorf("%s, %d of %d bytes", response.Status, got, t.bytes)
	}
	return err
}
