package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	"switchyard.dev/tests/figures"
)

// separator ends each record of goreplay.
const separator = "\n🐵🙈🙉\n"

// goreplay records the requests at the application, while the traffic container records the same ones.
func (b *bench) goreplay(ctx context.Context, s settings, w io.Writer) error {
	if err := b.traffic(ctx); err != nil {
		return err
	}
	p := b.places[0]
	b.places = nil
	defer b.programs[len(b.programs)-1].Kill()
	cmd := exec.Command(filepath.Join(replayer(s.cache), "goreplay"), "--input-raw", b.app.String(), "--input-raw-track-response", "--output-stdout") //nolint:gosec // from the cache
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Join(replayer(s.cache), libraries))
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	var requests, responses atomic.Int64
	go records(out, &requests, &responses)
	replay, err := b.start("goreplay", cmd)
	if err != nil {
		return err
	}
	defer replay.Kill()
	if err := p.await(ctx); err != nil {
		return err
	}
	// It listens once it has recorded what await has sent.
	for until := time.Now().Add(patience); requests.Load() == 0 && time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		if _, err := p.load.run(kinds[1], clients, time.Second); err != nil {
			return err
		}
	}
	time.Sleep(settle)
	before, of, to := b.served.served.Load(), requests.Load(), responses.Load()
	one, cpu, missing, err := b.measure(p, kinds[1], s.rate, time.Duration(s.requests)*time.Second/time.Duration(s.rate))
	if err != nil {
		return err
	}
	served := b.served.served.Load() - before
	for until := time.Now().Add(settle); requests.Load()-of < served && time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
	}
	figures.Print(w, "traffic-same-requests", float64(one.answered), "requests")
	figures.Text(w, "traffic-same-requests-traffic-missing", missing, "exchanges", "0", missing == 0)
	figures.Print(w, "traffic-same-requests-traffic-cpu", cpu, "us-per-request")
	figures.Print(w, "traffic-same-requests-goreplay-missing", float64(served-(requests.Load()-of)), "requests")
	figures.Print(w, "traffic-same-requests-goreplay-missing-responses", float64(served-(responses.Load()-to)), "responses")
	return replay.Running()
}

// records counts the records of goreplay. Their first byte is 1 for requests, 2 for responses.
func records(from io.Reader, requests, responses *atomic.Int64) {
	all := bufio.NewScanner(from)
	all.Buffer(nil, 8<<20)
	all.Split(func(data []byte, end bool) (int, []byte, error) {
		if i := bytes.Index(data, []byte(separator)); i >= 0 {
			return i + len(separator), data[:i], nil
		}
		return 0, nil, nil
	})
	for all.Scan() {
		switch {
		case bytes.HasPrefix(all.Bytes(), []byte("1 ")):
			requests.Add(1)
		case bytes.HasPrefix(all.Bytes(), []byte("2 ")):
			responses.Add(1)
		}
	}
}
