package suites

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/sync/errgroup"

	"switchyard.dev/tests/transparency/suite"
)

// H2Spec is https://github.com/summerwind/h2spec, with its strict cases. It cannot send custom
// headers, so it runs without a key only.
type H2Spec struct {
	// Program returns the command of h2spec.
	Program Program
}

// Name is suite.Suite.
func (H2Spec) Name() string { return "h2spec" }

// report is what h2spec writes.
type report struct {
	Sections []struct {
		Package string `xml:"package,attr"`
		Cases   []struct {
			Title   string    `xml:"classname,attr"`
			Failure *struct{} `xml:"failure"`
			Error   *string   `xml:"error"`
			Skipped *struct{} `xml:"skipped"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

// sections are what runs at the same time: a proxy lets each case that ends in an error
// wait for a second, and a whole run would last minutes. Section 5.1 has others within.
func sections() []string {
	all := []string{
		"generic", "hpack", "http2/3.5", "http2/4.1", "http2/4.2", "http2/4.3", "http2/5.1.1", "http2/5.3", "http2/5.4", "http2/5.5",
		"http2/6.1", "http2/6.2", "http2/6.3", "http2/6.4", "http2/6.5", "http2/6.7", "http2/6.8", "http2/6.9", "http2/6.10", "http2/7", "http2/8.1", "http2/8.2",
	}
	for i := range 13 {
		all = append(all, fmt.Sprintf("http2/5.1/%d", i+1))
	}
	return all
}

// concurrency is the section that opens one more stream than the limit. Where the limit is above
// mostStreams the section takes too long to end, and shows nothing.
const (
	concurrency = "http2/5.1.2"
	mostStreams = 1 << 16
)

// Run is suite.Suite.
func (s H2Spec) Run(ctx context.Context, to suite.Target) (suite.Seen, error) {
	all := sections()
	limit, err := streams(ctx, to.Address)
	if err != nil {
		return nil, err
	}
	if limit <= mostStreams {
		all = append(all, concurrency)
	}
	seen, err := s.each(ctx, to, all, 2)
	if err != nil {
		return nil, err
	}
	// What did not pass is asked again alone and with more patience: h2spec takes an
	// answer that comes late for none.
	var again []string
	for name, said := range seen {
		if said != suite.Passed {
			again = append(again, name)
		}
	}
	alone, err := s.each(ctx, to, again, 4)
	if err != nil {
		return nil, err
	}
	maps.Copy(seen, alone)
	if limit > mostStreams {
		seen[concurrency+"/1"] = fmt.Sprintf("not asked: %d streams are let", limit)
	}
	return seen, nil
}

// each runs sections, or cases, of h2spec at the same time.
func (s H2Spec) each(ctx context.Context, to suite.Target, what []string, patience int) (suite.Seen, error) {
	work, ctx := errgroup.WithContext(ctx)
	all := make([]suite.Seen, len(what))
	for i, section := range what {
		work.Go(func() (err error) {
			all[i], err = s.one(ctx, to, section, patience)
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return nil, err
	}
	seen := suite.Seen{}
	for i, some := range all {
		if strings.Count(what[i], "/") == 2 && len(some) == 1 { // the report of a case calls it the first of its section
			for _, said := range some {
				some = suite.Seen{what[i]: said}
			}
		}
		maps.Copy(seen, some)
	}
	return seen, nil
}

// one runs a section, or one case. h2spec waits so many seconds for an answer.
func (s H2Spec) one(ctx context.Context, to suite.Target, what string, patience int) (suite.Seen, error) {
	host, port, err := net.SplitHostPort(to.Address)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "h2spec-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "report.xml")
	var said string
	var ran error
	// On a busy machine it sometimes does not end; when it has ended it has written a report.
	for range 3 {
		// It ends with 1 when a case failed.
		said, ran = output(ctx, s.Program("--strict", "-h", host, "-p", port, "-o", fmt.Sprint(patience), "-j", file, what), 40*time.Second)
		if text, err := os.ReadFile(file); err == nil {
			return read(text)
		}
	}
	return nil, fmt.Errorf("h2spec %s has written no report: %w: %s", what, ran, said)
}

// read returns the results of a report, by h2spec's names of its cases.
func read(text []byte) (suite.Seen, error) {
	// It quotes bytes that it has read, which are not valid in XML.
	text = bytes.Map(func(c rune) rune {
		if c < ' ' && c != '\n' && c != '\t' {
			return ' '
		}
		return c
	}, text)
	var r report
	if err := xml.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("read h2spec's report: %w", err)
	}
	seen := suite.Seen{}
	for _, section := range r.Sections {
		for i, c := range section.Cases {
			name := fmt.Sprintf("%s/%d", section.Package, i+1)
			switch {
			case c.Failure != nil || c.Error != nil:
				seen[name] = "failed: " + strings.TrimSpace(c.Title)
			case c.Skipped != nil:
				seen[name] = "skipped"
			default:
				seen[name] = suite.Passed
			}
		}
	}
	return seen, nil
}

// streams returns the maximum number of streams that a server allows on a connection.
func streams(ctx context.Context, address string) (limit uint32, err error) {
	c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return 0, err
	}
	frames := http2.NewFramer(c, c)
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		return 0, err
	}
	if err := frames.WriteSettings(); err != nil {
		return 0, err
	}
	first, err := frames.ReadFrame()
	if err != nil {
		return 0, err
	}
	if settings, ok := first.(*http2.SettingsFrame); ok {
		limit, _ = settings.Value(http2.SettingMaxConcurrentStreams)
	}
	return limit, nil // 0 is any number: h2spec passes it over
}
