package suites

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"switchyard.dev/tests/transparency/suite"
)

// H2Spec is https://github.com/summerwind/h2spec, with its strict cases. It has no way
// to send a header of one's own, so it runs without a key only.
type H2Spec struct {
	// Program gives its program.
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

// Run is suite.Suite.
func (s H2Spec) Run(ctx context.Context, to suite.Target) (suite.Seen, error) {
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
	// It ends with 1 when a case failed.
	said, ran := output(ctx, s.Program("--strict", "-h", host, "-p", port, "-j", file), 5*time.Minute)
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("h2spec has written no report: %w: %s", ran, said)
	}
	return read(text)
}

// read gives what a report says, by the names that h2spec gives its cases.
func read(text []byte) (suite.Seen, error) {
	// It quotes what it has read, which XML cannot hold.
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
