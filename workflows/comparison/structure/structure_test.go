package structure_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"switchyard.dev/workflows/comparison/exchange"
	"switchyard.dev/workflows/comparison/structure"
)

func message(media, encoding string, body []byte) exchange.Message {
	return exchange.Message{Header: []exchange.Field{{Name: "Content-Type", Value: media}, {Name: "Content-Encoding", Value: encoding}}, Body: body}
}

func compressed(t *testing.T, encoding string, plain []byte) []byte {
	t.Helper()
	var to bytes.Buffer
	var err error
	switch encoding {
	case "gzip":
		w := gzip.NewWriter(&to)
		_, err = w.Write(plain)
		err = errors.Join(err, w.Close())
	case "br":
		w := brotli.NewWriter(&to)
		_, err = w.Write(plain)
		err = errors.Join(err, w.Close())
	case "zstd":
		var w *zstd.Encoder
		if w, err = zstd.NewWriter(&to); err == nil {
			_, err = w.Write(plain)
			err = errors.Join(err, w.Close())
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return to.Bytes()
}

func TestCompressedBodiesAreDecodedWithinTheLimit(t *testing.T) {
	plain := []byte(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`)
	for _, encoding := range []string{"gzip", "br", "zstd"} {
		m := message("application/json", encoding, compressed(t, encoding, plain))
		v, err := structure.Body(m, structure.MaxDecoded)
		if err != nil || v.Member("a") == nil || len(v.Member("a").Text) != 1<<20 {
			t.Errorf("%s: %v", encoding, err)
		}
		v, err = structure.Body(m, 1<<19)
		if !errors.Is(err, structure.ErrTooLarge) || v.Kind != structure.Opaque {
			t.Errorf("%s beyond the limit: %v, %v", encoding, v.Kind, err)
		}
		m.Body = m.Body[:len(m.Body)/2]
		if v, err := structure.Body(m, structure.MaxDecoded); err == nil || v.Kind != structure.Opaque {
			t.Errorf("half of %s: %v", encoding, err)
		}
	}
}

func TestBodiesAreDecodedByTheirType(t *testing.T) {
	deep := strings.Repeat("[", 300) + strings.Repeat("]", 300)
	for name, row := range map[string]struct {
		message exchange.Message
		want    string
	}{
		"numbers keep their text":    {message("application/json", "", []byte(`{"b":1.10,"a":[12345678901234567890,null,true]}`)), `{a:[12345678901234567890,null,true],b:1.10}`},
		"JSON without a type":        {message("", "", []byte(`[1]`)), `[1]`},
		"text":                       {message("text/plain", "", []byte("hello\n")), `"hello"`},
		"text with names":            {message("text/plain", "", []byte("# HELP\nup{a=\"1\"} 1\ndown 2\n")), `{down:"2",up{a="1"}:"1"}`},
		"lines":                      {message("text/plain", "", []byte("a: 1\na: 2\n")), `["a: 1","a: 2"]`},
		"an empty body":              {message("text/plain", "", nil), `empty`},
		"JSON that is text":          {message("application/json", "", []byte("no JSON")), `"no JSON"`},
		"JSON that is too deep":      {message("application/json", "", []byte(deep)), `"` + deep + `"`},
		"bytes":                      {message("image/png", "", []byte{0xff, 0xfe}), `sha256:`},
		"an unknown encoding":        {message("text/plain", "snappy", []byte("x")), `sha256:`},
		"a body that was cut":        {exchange.Message{Body: []byte("{"), Size: 100, SHA256: "abc"}, `sha256:abc`},
		"more than one JSON value":   {message("application/json", "", []byte("{} {}")), `"{} {}"`},
		"of two names the last":      {message("application/json", "", []byte(`{"a":1,"a":2}`)), `{a:2}`},
		"protobuf that is malformed": {message("application/x-protobuf", "", []byte{0x0a, 0x7f}), `sha256:`},
	} {
		v, err := structure.Body(row.message, structure.MaxDecoded)
		if got := v.String(); got != row.want && !(row.want == "sha256:" && err != nil && strings.HasPrefix(got, row.want)) {
			t.Errorf("%s: %.200s (%v), not %.200s", name, got, err, row.want)
		}
	}
}

// Of a body that is too deep, nothing after the level beyond the bound is read: not even that it is not JSON.
func TestJSONThatIsTooDeepIsNotDecoded(t *testing.T) {
	const bound = 200
	for name, row := range map[string]struct{ text, want string }{
		"lists":                   {strings.Repeat("[", bound+1) + "no JSON", "more than 200 levels"},
		"objects":                 {strings.Repeat(`{"a":`, bound+1) + "no JSON", "more than 200 levels"},
		"deeper than Go decodes":  {strings.Repeat("[", 20000) + strings.Repeat("]", 20000), "more than 200 levels"},
		"the deepest that can be": {strings.Repeat("[", bound) + "1" + strings.Repeat("]", bound), ""},
		"brackets in strings":     {`["` + strings.Repeat(`[{\"`, bound+1) + `\\",[]]`, ""},
		"side by side":            {"[" + strings.Repeat(`[],{"a":{}},`, bound+1) + "1]", ""},
	} {
		if _, err := structure.JSON([]byte(row.text)); (err == nil) != (row.want == "") || err != nil && !strings.HasSuffix(err.Error(), row.want) {
			t.Errorf("%s: %v, not %q", name, err, row.want)
		}
	}
	deep := []byte(strings.Repeat("[", bound+1) + strings.Repeat("{},", 1<<16))
	if n := testing.AllocsPerRun(1, func() { _, _ = structure.JSON(deep) }); n > 5 {
		t.Errorf("a body that is too deep takes %v allocations", n)
	}
}

func TestProtobufIsDecodedByFieldNumber(t *testing.T) {
	m := &descriptorpb.FieldDescriptorProto{Name: proto.String("driver_id"), Number: proto.Int32(7), Options: &descriptorpb.FieldOptions{Deprecated: proto.Bool(true)}}
	body, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	v, err := structure.Wire(body)
	want := `{1:["driver_id"],3:[7],8:[{3:[1]}]}`
	if err != nil || v.String() != want {
		t.Errorf("by number %s, not %s (%v)", v, want, err)
	}
	frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body)))
	frame = append(frame, body...)
	call := message("application/grpc+proto", "", frame)
	if v, err = structure.Body(call, structure.MaxDecoded); err != nil || v.String() != want {
		t.Errorf("in a frame %s, not %s (%v)", v, want, err)
	}
	call.Body = append(frame, frame...)
	if v, err = structure.Body(call, structure.MaxDecoded); err != nil || len(v.Elements) != 2 {
		t.Errorf("a stream of two: %s (%v)", v, err)
	}
	call.Body = frame[:len(frame)-1]
	if v, err = structure.Body(call, structure.MaxDecoded); err == nil {
		t.Errorf("half of a message: %s", v)
	}
	packed := append([]byte{1}, binary.BigEndian.AppendUint32(nil, uint32(len(compressed(t, "gzip", body))))...)
	call.Body = append(packed, compressed(t, "gzip", body)...)
	call.Header = append(call.Header, exchange.Field{Name: "grpc-encoding", Value: "gzip"})
	if v, err = structure.Body(call, structure.MaxDecoded); err != nil || v.Member("1") == nil {
		t.Errorf("compressed: %s (%v)", v, err)
	}
}

// Messages within messages are not copied at each level, also where all their bytes are UTF-8.
func TestNestedProtobufIsNotCopied(t *testing.T) {
	const size, levels = 1<<20 + 0x42, 30
	field := func(number protowire.Number, content []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), content)
	}
	body := field(1, bytes.Repeat([]byte("x"), size))
	for range levels {
		padded := body
		for n := 0; len(padded)&0x7f < 0x42 || len(padded)&0x7f > 0x5f; n++ { // then the length of the message is a rune
			padded = append(slices.Clip(body), field(2, bytes.Repeat([]byte("y"), n))...)
		}
		body = field(1, padded)
	}
	if !utf8.Valid(body) {
		t.Fatal("it is not UTF-8")
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	v, err := structure.Wire(body)
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; err != nil || taken > 8*size || !strings.HasPrefix(v.String(), strings.Repeat("{1:[", levels+1)+`"xxx`) {
		t.Errorf("%d MiB are allocated for %.100s (%v)", taken>>20, v, err)
	}
}
