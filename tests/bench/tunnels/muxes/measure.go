package muxes

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"switchyard.dev/tests/bench/tunnels/lab"
	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/selfsigned"
)

// Compare compares multiplexers over links of some round trips, all or those in only. frameBytes is the
// size of frames of go-yamux.
func Compare(roundTrips []time.Duration, only string, duration time.Duration, frameBytes uint) error {
	frame = frameBytes
	for _, roundTrip := range roundTrips {
		if err := compare(roundTrip, only, duration); err != nil {
			return err
		}
	}
	return nil
}

// compare measures every multiplexer over one link.
func compare(roundTrip time.Duration, only string, duration time.Duration) error {
	made, err := selfsigned.New("tunnel")
	if err != nil {
		return err
	}
	id, err := newIdentity(made)
	if err != nil {
		return err
	}
	l, err := lab.New(lab.Link{RoundTrip: roundTrip})
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Printf("%-10s %-6s %10s %10s %10s %10s %8s\n", "mux", "rtt", "up MB/s", "down MB/s", "p50 ms", "p99 ms", "CPU s/GB")
	for _, m := range muxes {
		if only != "" && !slices.Contains(strings.Split(only, ","), m.name) {
			continue
		}
		s, err := m.open(l, id)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		times, err := pingPong(s, roundTrip)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		used := cpu()
		up, all := throughput(s.near, s.far, duration)
		s.close()
		if s, err = m.open(l, id); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		down, more := throughput(s.far, s.near, duration)
		s.close()
		perGB := (cpu() - used).Seconds() / (float64(all+more) / 1e9)
		fmt.Printf("%-10s %-6s %10.1f %10.1f %10.3f %10.3f %8.2f\n", m.name, roundTrip, up, down, figures.Millis(times, .5), figures.Millis(times, .99), perGB)
		time.Sleep(300 * time.Millisecond)
	}
	return nil
}

// pingPong asks and answers 64 bytes, one after another.
func pingPong(s ends, roundTrip time.Duration) ([]time.Duration, error) {
	rounds := 3000
	if roundTrip > 0 {
		rounds = int(3 * time.Second / roundTrip)
	}
	go func() {
		buf := make([]byte, 64)
		for range rounds {
			if _, err := io.ReadFull(s.far, buf); err != nil {
				return
			}
			if _, err := s.far.Write(buf); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 64)
	var times []time.Duration
	for range rounds {
		began := time.Now()
		if _, err := s.near.Write(buf); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(s.near, buf); err != nil {
			return nil, err
		}
		times = append(times, time.Since(began))
	}
	return times, nil
}

// throughput returns how many MB come through a stream each second once it is at speed, and how
// many bytes came in all.
func throughput(from io.Writer, to io.Reader, duration time.Duration) (rate float64, all int64) {
	var came atomic.Int64
	var over atomic.Bool
	go func() {
		// As Relay does: what fills frames, of 32 KiB or less.
		buf := make([]byte, 2*(32<<10-12))
		for !over.Load() {
			if _, err := from.Write(buf); err != nil {
				return
			}
		}
	}()
	go func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := to.Read(buf)
			came.Add(int64(n))
			if err != nil {
				return
			}
		}
	}()
	time.Sleep(duration / 3)
	began, before := time.Now(), came.Load()
	time.Sleep(duration * 2 / 3)
	rate = float64(came.Load()-before) / 1e6 / time.Since(began).Seconds()
	over.Store(true)
	return rate, came.Load()
}

// cpu returns the processor time of this process, which is both ends.
func cpu() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func newIdentity(made selfsigned.Pair) (*identity, error) {
	certificate, err := tls.X509KeyPair(made.Cert, made.Key)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(made.Cert)
	return &identity{certificate, roots}, nil
}
