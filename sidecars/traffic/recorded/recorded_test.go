package recorded_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/published"
	"switchyard.dev/sidecars/traffic/recorded"
)

// put writes a request into a folder.
func put(in fstest.MapFS, id string, second int64, m *trafficv1.Message) {
	x := &trafficv1.Exchange{Id: id, Port: 80, Began: timestamppb.New(time.Unix(second, 0)), Protocol: "HTTP/1.1", Request: m}
	in[id+"/meta.json"] = &fstest.MapFile{Data: published.MetaOf(x, "ForkedWorkload/shop/cart").File()}
	in[id+"/request"] = &fstest.MapFile{Data: published.Request(x)}
}

func TestWhatWasWrittenIsRead(t *testing.T) {
	in := fstest.MapFS{"meta.jsons": {}, "notes/mine": {}, "unread/request": {}}
	header := func(name, value string) *trafficv1.Header { return &trafficv1.Header{Name: name, Value: value} }
	put(in, "b", 2, &trafficv1.Message{Method: "GET", Target: "/?a=b", Authority: "cart"})
	put(in, "c", 1, &trafficv1.Message{Method: "POST", Target: "/add", Authority: "cart:80", Headers: []*trafficv1.Header{header("accept", "a"), header("accept", "b")}, Body: []byte("one\r\ntwo"), BodySize: 8})
	put(in, "a", 2, &trafficv1.Message{Method: "POST", Target: "/chunked", Authority: "cart", Trailers: []*trafficv1.Header{header("end", "x")}, Body: []byte("whole"), BodySize: 5})
	put(in, "other", 3, &trafficv1.Message{Method: "GET", Target: "/"})
	in["moved/meta.json"] = in["other/meta.json"]
	in["broken/meta.json"] = &fstest.MapFile{Data: []byte("{")}
	all, err := recorded.List(in)
	var ids []string
	for _, m := range all {
		ids = append(ids, m.MiddlewareRequestID)
	}
	if !slices.Equal(ids, []string{"c", "a", "b", "other"}) || all[0].DestWorkload != "ForkedWorkload/shop/cart" || all[0].Capture.Port != 80 {
		t.Errorf("there is %+v", all)
	}
	if err == nil || !strings.Contains(err.Error(), "request broken cannot be read") || !strings.Contains(err.Error(), `request moved cannot be read: its metadata is that of request "other"`) || strings.Contains(err.Error(), "notes") {
		t.Error(err)
	}
	for id, want := range map[string]string{"a": "whole", "b": "", "c": "one\r\ntwo"} {
		if _, body, err := recorded.Request(in, id); err != nil || string(body) != want {
			t.Errorf("%s: %q, %v", id, body, err)
		}
	}
	if h, _, _ := recorded.Request(in, "c"); !slices.Equal(h.Values("Accept"), []string{"a", "b"}) {
		t.Errorf("the headers are %q", h)
	}
	if _, _, err := recorded.Request(in, "moved"); err == nil {
		t.Error("a missing request is read")
	}
}
