package structure

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strconv"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

var errNoMessage = errors.New("no protobuf message")

// Wire decodes a protobuf message: members are field numbers, each with the list of its values.
func Wire(body []byte) (*Value, error) { return wire(body, 0) }

func wire(body []byte, depth int) (*Value, error) {
	if depth > maxDepth {
		return nil, errTooDeep
	}
	fields := map[protowire.Number]*Value{}
	var members []Member
	for len(body) > 0 {
		number, kind, n := protowire.ConsumeTag(body)
		if n < 0 {
			return nil, errNoMessage
		}
		body = body[n:]
		value, n := field(number, kind, body, depth)
		if n < 0 {
			return nil, errNoMessage
		}
		body = body[n:]
		if fields[number] == nil {
			fields[number] = &Value{Kind: List}
			members = append(members, Member{strconv.Itoa(int(number)), fields[number]})
		}
		fields[number].Elements = append(fields[number].Elements, value)
	}
	return ObjectOf(members...), nil
}

// field returns the value of a field and its length, which is negative if it is malformed.
func field(number protowire.Number, kind protowire.Type, body []byte, depth int) (*Value, int) {
	switch kind {
	case protowire.VarintType:
		x, n := protowire.ConsumeVarint(body)
		return &Value{Kind: Number, Text: strconv.FormatInt(int64(x), 10)}, n
	case protowire.Fixed32Type:
		x, n := protowire.ConsumeFixed32(body)
		return &Value{Kind: Number, Text: strconv.FormatInt(int64(int32(x)), 10)}, n
	case protowire.Fixed64Type:
		x, n := protowire.ConsumeFixed64(body)
		return &Value{Kind: Number, Text: strconv.FormatInt(int64(x), 10)}, n
	case protowire.BytesType:
		content, n := protowire.ConsumeBytes(body)
		return bytesField(content, depth), n
	}
	return &Value{Kind: Opaque, Text: "group"}, protowire.ConsumeFieldValue(number, kind, body)
}

// bytesField returns a text, a message, or bytes: the wire does not show which.
func bytesField(content []byte, depth int) *Value {
	if utf8.Valid(content) && !bytes.ContainsFunc(content, func(r rune) bool { return !unicode.IsPrint(r) && !unicode.IsSpace(r) }) {
		return &Value{Kind: Text, Text: string(content)}
	}
	if v, err := wire(content, depth+1); err == nil {
		return v
	}
	return &Value{Kind: Opaque, Text: base64.StdEncoding.EncodeToString(content)}
}

// frames returns the messages of a gRPC body, each decompressed.
func frames(body []byte, encoding string, limit int64) ([][]byte, error) {
	var messages [][]byte
	for len(body) > 0 {
		if len(body) < 5 || uint64(len(body)-5) < uint64(binary.BigEndian.Uint32(body[1:5])) {
			return nil, errors.New("the last gRPC message is incomplete")
		}
		end := 5 + int(binary.BigEndian.Uint32(body[1:5]))
		message := body[5:end]
		if body[0] == 1 {
			var err error
			if message, err = Decode(message, encoding, limit); err != nil {
				return nil, err
			}
		}
		limit -= int64(len(message))
		messages, body = append(messages, message), body[end:]
	}
	return messages, nil
}
