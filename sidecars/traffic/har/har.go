// Package har writes recorded traffic as HTTP Archive 1.2 (HAR), which browsers and other tools import. It is pure: the
// caller gives the writer.
//
// Fields "comment" state what the archive does not have: bodies that are cut, responses that are missing, headers and
// JSON paths that were removed, and in the log the exchanges that are not in it. Bodies that are no text are in base64; for
// those of requests, for which HAR has no field, "_encoding" states it. Whole bodies in gzip are decoded. Reason phrases
// are not recorded, and a missing response has status 0, as in archives of browsers.
package har

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
)

// Writer writes an archive entry by entry, with the memory of one.
type Writer struct {
	to      io.Writer
	entries int
	err     error
}

type creator struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// New begins an archive that a version of this project creates.
func New(to io.Writer, version string) *Writer {
	w := &Writer{to: to}
	w.printf(`{"log":{"version":"1.2","creator":%s,"entries":[`, text(creator{"switchyard", version}))
	return w
}

// Add adds an exchange. The first error of a write is returned by all calls after it.
func (w *Writer) Add(x *trafficv1.Exchange) error {
	separator := ",\n"
	if w.entries == 0 {
		separator = "\n"
	}
	w.entries++
	w.printf("%s%s", separator, text(entryOf(x)))
	return w.err
}

// End completes the archive with a comment about all of it.
func (w *Writer) End(comment string) error {
	w.printf("\n],\"comment\":%s}}\n", text(comment))
	return w.err
}

func (w *Writer) printf(format string, args ...any) {
	if w.err == nil {
		_, w.err = fmt.Fprintf(w.to, format, args...)
	}
}

// text returns a value as JSON.
func text(v any) []byte {
	out, _ := json.Marshal(v) // no value of this package can fail
	return out
}

// The objects of HAR 1.2, with the fields that have a value.
type (
	entry struct {
		StartedDateTime time.Time `json:"startedDateTime"`
		Time            float64   `json:"time"`
		Request         request   `json:"request"`
		Response        response  `json:"response"`
		Cache           struct{}  `json:"cache"`
		Timings         timings   `json:"timings"`
		Comment         string    `json:"comment,omitempty"`
	}
	request struct {
		Method      string   `json:"method"`
		URL         string   `json:"url"`
		HTTPVersion string   `json:"httpVersion"`
		Cookies     []pair   `json:"cookies"`
		Headers     []pair   `json:"headers"`
		QueryString []pair   `json:"queryString"`
		PostData    *content `json:"postData,omitempty"`
		HeadersSize int      `json:"headersSize"`
		BodySize    uint64   `json:"bodySize"`
		Comment     string   `json:"comment,omitempty"`
	}
	response struct {
		Status      uint32  `json:"status"`
		StatusText  string  `json:"statusText"`
		HTTPVersion string  `json:"httpVersion"`
		Cookies     []pair  `json:"cookies"`
		Headers     []pair  `json:"headers"`
		Content     content `json:"content"`
		RedirectURL string  `json:"redirectURL"`
		HeadersSize int     `json:"headersSize"`
		BodySize    uint64  `json:"bodySize"`
		Comment     string  `json:"comment,omitempty"`
	}
	// content is also postData, which has no size.
	content struct {
		Size            *uint64 `json:"size,omitempty"`
		Compression     int64   `json:"compression,omitempty"`
		MimeType        string  `json:"mimeType"`
		Text            string  `json:"text"`
		Encoding        string  `json:"encoding,omitempty"`
		RequestEncoding string  `json:"_encoding,omitempty"`
		Comment         string  `json:"comment,omitempty"`
	}
	pair struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	timings struct {
		Send    float64 `json:"send"`
		Wait    float64 `json:"wait"`
		Receive float64 `json:"receive"`
	}
)
