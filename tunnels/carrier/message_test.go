package carrier

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"google.golang.org/protobuf/proto"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
)

// FuzzReadMessage reads whatever comes. What is a message is read the same once it was written
// anew, and nothing is read beyond it.
func FuzzReadMessage(f *testing.F) {
	for _, m := range []*tunnelv1.Control{
		{},
		{Is: &tunnelv1.Control_Ping{Ping: &tunnelv1.Ping{}}},
		{Is: &tunnelv1.Control_Hello{Hello: &tunnelv1.Hello{Version: 1, Session: "s", Epoch: 7, Labels: map[string]string{"os": "linux"}}}},
		{Is: &tunnelv1.Control_Leave{Leave: &tunnelv1.Leave{Why: &tunnelv1.Refused{Message: "x"}, ComeBack: true}}},
	} {
		var b bytes.Buffer
		if err := writeMessage(&b, m, maxControl); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Add([]byte{0, 0, 0})
	f.Add([]byte{255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, raw []byte) {
		const limit = 1 << 10
		r := bytes.NewReader(append(raw[:len(raw):len(raw)], "rest"...))
		m := &tunnelv1.Control{}
		err := readMessage(r, m, limit)
		took := len(raw) + len("rest") - r.Len()
		if took > lengthBytes+limit {
			t.Fatalf("%d bytes were read", took)
		}
		if err != nil {
			if !errors.Is(err, errMessage) && err != io.EOF {
				t.Fatal(err)
			}
			return
		}
		var again bytes.Buffer
		if err := writeMessage(&again, m, 2*limit); err != nil {
			t.Fatal(err)
		}
		same := &tunnelv1.Control{}
		if err := readMessage(&again, same, 2*limit); err != nil || !proto.Equal(m, same) || again.Len() != 0 {
			t.Fatalf("%v became %v, %v", m, same, err)
		}
	})
}

func TestAMessageMayNotBeTooLong(t *testing.T) {
	m := &tunnelv1.Refused{Message: string(bytes.Repeat([]byte("x"), maxOpen))}
	if err := writeMessage(io.Discard, m, maxOpen); err == nil {
		t.Error("it is sent")
	}
}
