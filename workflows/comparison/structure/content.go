package structure

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"switchyard.dev/workflows/comparison/exchange"
)

// ErrTooLarge: a body is larger than the limit when it is decoded.
var ErrTooLarge = errors.New("the decoded body exceeds the limit")

// MaxDecoded is how many bytes a decoded body usually can have.
const MaxDecoded = 8 << 20

// Body returns the body of a message as a value. Bodies that cannot be decoded, or have more than limit bytes then, are Opaque, with
// the problem.
func Body(m exchange.Message, limit int64) (*Value, error) {
	if m.Size > int64(len(m.Body)) {
		return opaque(m, m.Body), fmt.Errorf("only %d of %d bytes were captured", len(m.Body), m.Size)
	}
	plain, err := Decode(m.Body, exchange.Value(m.Header, "content-encoding"), limit)
	if err != nil {
		return opaque(m, m.Body), err
	}
	value, err := parse(m, plain, limit)
	if err != nil {
		return opaque(m, plain), err
	}
	return value, nil
}

func opaque(m exchange.Message, content []byte) *Value {
	if m.SHA256 == "" {
		sum := sha256.Sum256(content)
		m.SHA256 = hex.EncodeToString(sum[:])
	}
	return &Value{Kind: Opaque, Text: "sha256:" + m.SHA256}
}

// Decode removes content encodings: gzip, deflate, br and zstd. It returns ErrTooLarge beyond the limit.
func Decode(body []byte, encodings string, limit int64) ([]byte, error) {
	names := strings.Split(encodings, ",")
	for i := len(names) - 1; i >= 0; i-- {
		var err error
		if body, err = decode(body, strings.ToLower(strings.TrimSpace(names[i])), limit); err != nil {
			return nil, err
		}
	}
	return body, nil
}

func decode(body []byte, encoding string, limit int64) (plain []byte, err error) {
	if len(body) == 0 || encoding == "" || encoding == "identity" {
		return body, nil
	}
	var from io.Reader = bytes.NewReader(body)
	switch encoding {
	case "gzip", "x-gzip":
		from, err = gzip.NewReader(from)
	case "deflate":
		from, err = zlib.NewReader(from)
	case "br":
		from = brotli.NewReader(from)
	case "zstd":
		var d *zstd.Decoder
		if d, err = zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(max(limit, 1<<20)))); err == nil {
			defer d.Close()
			from = d
		}
	default:
		return nil, fmt.Errorf("content encoding %q is unknown", encoding)
	}
	if err == nil {
		plain, err = io.ReadAll(io.LimitReader(from, limit+1))
	}
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded), errors.Is(err, zstd.ErrWindowSizeExceeded), int64(len(plain)) > limit:
		return nil, ErrTooLarge
	case err != nil:
		return nil, fmt.Errorf("decode %s: %w", encoding, err)
	}
	return plain, nil
}

func parse(m exchange.Message, plain []byte, limit int64) (*Value, error) {
	if len(plain) == 0 {
		return &Value{Kind: Null, Text: "empty"}, nil
	}
	media, _, _ := mime.ParseMediaType(exchange.Value(m.Header, "content-type")) // empty if it is malformed
	first := bytes.TrimLeft(plain, " \t\r\n")
	switch {
	case strings.HasPrefix(media, "application/grpc"):
		return grpc(m, plain, limit)
	case strings.Contains(media, "protobuf"):
		return Wire(plain)
	case strings.Contains(media, "json") || len(first) > 0 && (first[0] == '{' || first[0] == '['):
		if v, err := JSON(plain); err == nil || !utf8.Valid(plain) {
			return v, err
		}
	}
	if !utf8.Valid(plain) {
		return nil, errors.New("neither JSON, protobuf nor text")
	}
	return Lines(string(plain)), nil
}

func grpc(m exchange.Message, plain []byte, limit int64) (*Value, error) {
	all, err := frames(plain, exchange.Value(m.Header, "grpc-encoding"), limit)
	if err != nil {
		return nil, err
	}
	list := &Value{Kind: List}
	for _, one := range all {
		v, err := Wire(one)
		if err != nil {
			return nil, err
		}
		list.Elements = append(list.Elements, v)
	}
	if len(list.Elements) == 1 {
		return list.Elements[0], nil
	}
	return list, nil
}
