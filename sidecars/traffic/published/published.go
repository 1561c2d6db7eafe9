// Package published returns recorded traffic in the published form: a folder for each request, named by its middleware
// request ID, with meta.json, request and response; and one record of metadata for each request, as JSON or YAML. It
// is pure: the caller writes the files.
//
// request and response are in the wire format of HTTP/1.1, also those of HTTP/2, and gRPC as HTTP/2 has it. Every
// HTTP parser reads them: a body that is cut has the Content-Length of its recorded part, a body without a length gets
// one, and a message with trailers is chunked. Reason phrases are not recorded. The metadata states which parts are
// missing: the rest of a body, the response, headers.
package published

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
)

// Names of the files in the folder of a request.
const (
	MetaFile     = "meta.json"
	RequestFile  = "request"
	ResponseFile = "response"
)

// Meta is the metadata of a request. The first fields have the published names.
type Meta struct {
	MiddlewareRequestID string    `json:"middlewareRequestID"`
	When                time.Time `json:"when"`
	// DestWorkload is the workload that served it, as KIND/NAMESPACE/NAME.
	DestWorkload string `json:"destWorkload"`
	RequestURI   string `json:"requestURI"`
	Method       string `json:"method"`
	UserAgent    string `json:"userAgent,omitempty"`
	RoutingKey   string `json:"routingKey,omitempty"`
	Host         string `json:"host"`
	// NormHost is Host in lower case and without a port.
	NormHost string `json:"normHost"`
	Proto    string `json:"proto"`
	Capture  Record `json:"capture"`
}

// Record is the metadata that the published form does not have.
type Record struct {
	Pod  string `json:"pod"`
	Port uint32 `json:"port"`
	// Status is that of the response; 0: there is none.
	Status uint32 `json:"status"`
	// MillisecondsToHeaders and MillisecondsToEnd are the times to the first and after the last byte of the response.
	MillisecondsToHeaders float64 `json:"millisecondsToHeaders"`
	MillisecondsToEnd     float64 `json:"millisecondsToEnd"`
	TraceID               string  `json:"traceID,omitempty"`
	ParentID              string  `json:"parentID,omitempty"`
	// Problem is why the response is missing, or not whole.
	Problem string `json:"problem,omitempty"`
	// Overridden: an override has answered.
	Overridden bool `json:"overridden,omitempty"`
	// Request and Response describe the recorded parts; without a response Response is nil.
	Request  *Part `json:"request"`
	Response *Part `json:"response"`
}

// Part describes the recorded part of a request or a response.
type Part struct {
	// BodySize is the size of the whole body, and BodySHA256 its digest. BodyRecorded bytes of it are in the file.
	BodySize     uint64 `json:"bodySize"`
	BodyRecorded int    `json:"bodyRecorded"`
	BodyCut      bool   `json:"bodyCut,omitempty"`
	BodySHA256   string `json:"bodySHA256,omitempty"`
	// Elided are the names of headers, and the JSON paths, that were removed.
	Elided []string `json:"elided,omitempty"`
}

// folder are the names of one file on every system.
var folder = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]{0,127}$`)

// Folder returns the name of the folder of a request. It is an error unless the ID is the name of one file on every system.
func Folder(id string) (string, error) {
	if !folder.MatchString(id) {
		return "", fmt.Errorf("request ID %.64q is no name of a folder: at most 128 letters, digits, - and _ are", id)
	}
	return id, nil
}

// MetaOf returns the metadata of an exchange that a workload, KIND/NAMESPACE/NAME, has served.
func MetaOf(x *trafficv1.Exchange, workload string) Meta {
	q := x.GetRequest()
	return Meta{
		MiddlewareRequestID: x.GetId(), When: x.GetBegan().AsTime(), DestWorkload: workload, RequestURI: q.GetTarget(), Method: q.GetMethod(),
		UserAgent: Value(q.GetHeaders(), "user-agent"), RoutingKey: x.GetRoutingKey(), Host: q.GetAuthority(), NormHost: strings.ToLower((&url.URL{Host: q.GetAuthority()}).Hostname()), Proto: x.GetProtocol(),
		Capture: Record{
			Pod: x.GetPod(), Port: x.GetPort(), Status: x.GetResponse().GetStatus(), Problem: x.GetProblem(), Overridden: x.GetOverridden(),
			MillisecondsToHeaders: Milliseconds(x.GetToHeaders().AsDuration()), MillisecondsToEnd: Milliseconds(x.GetToEnd().AsDuration()),
			TraceID: x.GetTraceId(), ParentID: x.GetParentId(), Request: partOf(q), Response: partOf(x.GetResponse()),
		},
	}
}

// Milliseconds returns a time in the unit of metadata.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func partOf(m *trafficv1.Message) *Part {
	if m == nil {
		return nil
	}
	return &Part{BodySize: m.GetBodySize(), BodyRecorded: len(m.GetBody()), BodyCut: Cut(m), BodySHA256: hex.EncodeToString(m.GetBodySha256()), Elided: m.GetElided()}
}

// Cut reports whether a part of a body was not recorded.
func Cut(m *trafficv1.Message) bool { return uint64(len(m.GetBody())) < m.GetBodySize() }

// Value returns the first value of a header; name is in lower case.
func Value(headers []*trafficv1.Header, name string) string {
	for _, h := range headers {
		if strings.ToLower(h.GetName()) == name {
			return h.GetValue()
		}
	}
	return ""
}

// File returns the content of meta.json.
func (m Meta) File() []byte {
	text, _ := json.MarshalIndent(m, "", "  ") // no value of it can fail
	return append(text, '\n')
}

// Line returns the metadata as one line of JSON.
func (m Meta) Line() []byte {
	text, _ := json.Marshal(m) // as in File
	return append(text, '\n')
}

// Document returns the metadata as one document of a stream of YAML.
func (m Meta) Document() ([]byte, error) {
	text, err := yaml.Marshal(m)
	return append([]byte("---\n"), text...), err
}
